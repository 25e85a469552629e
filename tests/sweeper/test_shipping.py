"""What a driver sends to the nodes of a cluster; that they run it is in tests/e2e/test_cluster_page.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.nodes import PROJECT, versions
from sweeper.placement import PlacementError, address_problem, require_shared
from sweeper.shipping import NOT_SHIPPED, project_folders, runtime_env
from sweeper.version import PACKAGES

ROOT = Path(__file__).parents[2]


def test_the_four_packages_are_sent_and_nothing_that_lies_beside_them() -> None:
    folders = [Path(path) for path in project_folders()]
    assert [path.name for path in folders] == [*PACKAGES]
    assert {path.parent for path in folders} == {ROOT}
    beside = {"tests", "docs", "benchmarks", ".git", ".ci", "runs"}
    assert not beside & {part for path in folders for part in path.relative_to(ROOT).parts}


def test_all_of_it_is_about_two_megabytes() -> None:
    """Ray packs it without compressing it."""
    files = [path for folder in project_folders() for path in Path(folder).rglob("*") if path.is_file()]
    sent = sum(path.stat().st_size for path in files if not set(NOT_SHIPPED) & set(path.parts))
    assert 1e6 < sent < 3e6


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
    monkeypatch.setattr("sweeper.placement.is_shipped", lambda: shipped)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}, {"Alive": True}])
    answers = {"versions": {"a": there, "b": there}}
    monkeypatch.setattr(
        "sweeper.placement.ask_nodes",
        lambda question, *paths, nodes: answers.get(question.__name__, {"a": [], "b": []}),
    )
    if shipped:
        require_shared(())
        answers["versions"]["b"] = there | {"torch": "1.0"}
        with pytest.raises(PlacementError, match=r"node b differs from this one: torch 1\.0 in place of"):
            require_shared(())
    else:
        with pytest.raises(PlacementError, match=f"node a differs from this one: no {PROJECT}"):
            require_shared(())


@pytest.mark.parametrize("command", ["pareto", "lr-study", "resume"])
def test_it_can_be_switched_off(command: str) -> None:
    assert "--no-ship" in CliRunner().invoke(main, [command, "--help"]).output


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "http://10.0.0.1:8265"])
def test_ray_client_is_refused_in_a_sentence_that_says_what_to_do(address: str) -> None:
    said = address_problem(address)
    assert said is not None
    assert said.startswith(f"--address {address}: ")
    assert "not through Ray Client" in said
    assert "ray job submit --address http://HOST:8265 -- python -m sweeper ... --address auto" in said
    assert "\n" not in said
