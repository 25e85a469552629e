"""What a driver sends to the nodes of a cluster; that they run it is in tests/e2e/test_cluster_page.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.execution.cluster import NOT_SHIPPED, project_folders, runtime_env
from sweeper.execution.nodes import PROJECT, versions
from sweeper.execution.placement import PlacementError, address_problem, require_shared
from sweeper.store.version import PACKAGES
from tests.sweeper.cli.conftest import invoke, names

ROOT = Path(__file__).parents[3]


def test_the_four_packages_are_sent_and_nothing_that_lies_beside_them() -> None:
    folders = [Path(path) for path in project_folders()]
    assert [path.name for path in folders] == [*PACKAGES]
    assert {path.parent for path in folders} == {ROOT}
    # Ray packs them without compressing them.
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert 1e6 < sum(path.stat().st_size for path in files if not set(NOT_SHIPPED) & set(path.parts)) < 3e6


def test_plug_ins_are_told_with_it_or_without_it() -> None:
    told = {"SWEEPER_PLUGINS": "[]"}
    assert runtime_env(ship=False, variables={}) == {}
    assert runtime_env(ship=False, variables=told) == {"env_vars": told}
    both = runtime_env(ship=True, variables=told)
    assert both == {"env_vars": told, "py_modules": project_folders(), "excludes": ["__pycache__"]}


@pytest.mark.parametrize(
    ("of_job", "added"),
    [
        ({"runtime_env": {"py_modules": ["gcs://mine.zip"]}}, set()),
        ({"runtime_env": {"working_dir": "gcs://mine.zip"}}, {"py_modules", "excludes"}),
        ({"runtime_env": {"working_dir": "gcs://mine.zip", "excludes": ["data"]}}, {"py_modules"}),
        ({"runtime_env": None}, {"py_modules", "excludes"}),
        ({}, {"py_modules", "excludes"}),
    ],
)
def test_what_a_submitted_job_brings_is_not_changed(
    of_job: dict[str, object], added: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray refuses a driver that names again what its job has named."""
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(of_job))
    assert runtime_env(ship=True, variables={}).keys() == added


@pytest.mark.parametrize("shipped", [True, False])
def test_a_project_that_is_sent_need_not_be_on_the_nodes_but_torch_must(
    shipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = versions() | {PROJECT: None}
    monkeypatch.setattr("sweeper.execution.placement.is_shipped", lambda: shipped)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}, {"Alive": True}])
    answers = {"versions": {"a": there, "b": there}}
    monkeypatch.setattr(
        "sweeper.execution.placement.ask_nodes",
        lambda question, *paths, nodes: answers.get(question.__name__, {"a": [], "b": []}),
    )
    if shipped:
        require_shared(())
        answers["versions"]["b"] = there | {"torch": "1.0"}
        with pytest.raises(PlacementError, match=r"node b .*torch 1\.0"):
            require_shared(())
    else:
        with pytest.raises(PlacementError, match=f"node a .*{PROJECT}"):
            require_shared(())


@pytest.mark.parametrize("command", ["pareto", "lr-study", "resume"])
def test_it_can_be_switched_off(command: str) -> None:
    assert "--no-ship" in invoke(command, "--help").output


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "http://10.0.0.1:8265"])
def test_ray_client_is_refused_with_the_command_that_works(address: str) -> None:
    problem = address_problem(address)
    assert problem is not None
    assert names(problem, [f"--address {address}", "ray job submit --address http://HOST:8265"])
