"""The facts of a node, and the problems that ``doctor`` reports. Real nodes: tests/e2e/test_clusters.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.checks.cluster_health import node_problems
from sweeper.execution.nodes import PACKAGES, Facts, differences, facts, missing_folders, versions
from tests.sweeper.cli.conftest import invoke, names


def test_a_machine_reports_its_hardware_versions_and_folders(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("x")
    missing = str(tmp_path / "nowhere")
    found = Facts(**facts([str(tmp_path), missing], "mark"))
    assert set(found.versions) == {"python", *PACKAGES}
    assert found.versions["torch"] is not None
    assert found.cpus >= 1
    assert found.missing_folders == [missing] == missing_folders([missing, str(tmp_path)])
    assert (found.refused, found.free_gb.keys()) == ({}, {str(tmp_path)})
    other = Facts(**facts([str(tmp_path)], "written-by-the-driver"))
    assert other.refused.keys() == {str(tmp_path)}, "another folder of the same name"
    good, empty = tmp_path.as_uri(), (tmp_path / "other").as_uri()
    found = Facts(**facts(mark="mark", storages=[good, empty, "s4://nowhere/at/all"]))
    assert found.refused.keys() == {empty, "s4://nowhere/at/all"}
    assert [path.name for path in tmp_path.iterdir()] == ["mark"], "no file is left"


@pytest.fixture
def alike() -> Facts:
    return Facts(versions(), 8, ("H100", "H100"), 21.4, (), {}, {"/shared": 812.0})


def test_every_problem_of_every_node_is_reported(alike: Facts) -> None:
    here = {"python": "3.11.7", "torch": "2.13.0", "peft": "0.21"}
    assert differences(here, here) == []
    torch, peft = differences(here, here | {"torch": "2.4.0", "peft": None})
    assert names(torch, ["torch", "2.4.0", "2.13.0"])
    assert names(peft, ["peft"])
    other = replace(
        alike, versions=versions() | {"ray": "2.0"}, missing_folders=["/a"], refused={"/b": "Read-only file system"}
    )
    found = node_problems({"good": alike, "bad": other, "silent": None})
    expected = (["bad", "ray", "2.0"], ["bad", "/a"], ["bad", "/b", "Read-only file system"], ["silent"])
    assert all(names(*pair) for pair in zip(found, expected, strict=True))


def test_doctor_lists_the_nodes_and_fails_if_a_node_does(alike: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"good": alike, "bad": None}
    monkeypatch.setattr("sweeper.checks.cluster_health.query_cluster", lambda address, folders, storages: nodes)
    done = invoke("doctor", "--address", "10.0.0.1:6379")
    assert done.exit_code == 1
    assert names(done.stdout, ["good", "8 CPUs", "2 x H100", "812 GB"])
    assert names(done.stderr, ["bad"])
    found = json.loads(invoke("doctor", "--address", "10.0.0.1:6379", "--json").stdout)
    assert (found["nodes"]["good"]["cpus"], found["nodes"]["bad"], len(found["faults"])) == (8, None, 1)
