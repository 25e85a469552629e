"""What a node says of itself, and what is made of it; with real nodes in tests/e2e/test_clusters.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.commands.doctor_cluster import faults_of, in_words
from sweeper.nodes import PACKAGES, Facts, differences, facts, unseen, versions


def test_a_machine_says_what_it_has_and_what_it_sees(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("x")
    missing = str(tmp_path / "nowhere")
    found = Facts(**facts([str(tmp_path), missing], "mark"))
    assert set(found.versions) == {"python", *PACKAGES}
    assert found.versions["torch"] is not None
    assert found.cpus >= 1
    assert found.unseen == [missing] == unseen([missing, str(tmp_path)])
    assert found.refused == {}
    assert found.free_gb.keys() == {str(tmp_path)}
    assert [path.name for path in tmp_path.iterdir()] == ["mark"]


def test_a_folder_of_the_same_name_that_is_another_one_is_noticed(tmp_path: Path) -> None:
    found = Facts(**facts([str(tmp_path)], "written-by-the-driver"))
    assert found.refused == {str(tmp_path): "No such file or directory"}


def test_a_storage_is_read_and_written_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("x")
    good, other = tmp_path.as_uri(), (tmp_path / "other").as_uri()
    found = Facts(**facts(mark="mark", storages=[good, other, "s4://nowhere/at/all"]))
    assert found.refused.keys() == {other, "s4://nowhere/at/all"}
    assert "other/mark" in found.refused[other]
    assert "s4" in found.refused["s4://nowhere/at/all"]
    assert [path.name for path in tmp_path.iterdir()] == ["mark"]


def test_what_differs_is_said_in_words() -> None:
    here = {"python": "3.11.7", "torch": "2.13.0", "peft": "0.21"}
    assert differences(here, here) == []
    assert differences(here, here | {"torch": "2.4.0", "peft": None}) == ["torch 2.4.0 in place of 2.13.0", "no peft"]


@pytest.fixture
def alike() -> Facts:
    return Facts(versions(), 8, ("H100", "H100"), 21.4, (), {}, {"/shared": 812.0})


def test_every_fault_of_every_node_is_a_sentence(alike: Facts) -> None:
    other = replace(alike, versions=versions() | {"ray": "2.0"}, unseen=["/a"], refused={"/b": "Read-only file system"})
    found = faults_of({"good": alike, "bad": other, "silent": None})
    assert len(found) == 4
    assert found[0].startswith("bad has ray 2.0 in place of ")
    assert found[1:] == [
        "bad does not see /a: share it under this path",
        "bad cannot read and write in /b: Read-only file system",
        "silent does not answer",
    ]


def test_a_node_is_a_line(alike: Facts) -> None:
    assert in_words({"gpu7": alike, "cpu1": replace(alike, gpus=(), memory_gb=None, free_gb={}), "x": None}) == [
        "gpu7  8 CPUs, 2 x H100, 21 GB of memory free; /shared: 812 GB free",
        "cpu1  8 CPUs, no GPU",
        "x  does not answer",
    ]


def test_doctor_tells_the_nodes_and_fails_where_one_does(alike: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sweeper.commands.doctor.look_at_nodes", lambda address, folders, storages: {"good": alike, "bad": None}
    )
    done = CliRunner().invoke(main, ["doctor", "--address", "10.0.0.1:6379"])
    assert done.exit_code == 1
    assert "node          good  8 CPUs, 2 x H100" in done.stdout
    assert "node bad does not answer" in done.stderr
    told = json.loads(CliRunner().invoke(main, ["doctor", "--address", "10.0.0.1:6379", "--json"]).stdout)
    assert (told["nodes"]["good"]["cpus"], told["nodes"]["bad"], told["faults"]) == (8, None, ["bad does not answer"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shared", "/tmp"], "--shared is for the nodes of a cluster: give its --address"),
        (["--address", "127.0.0.1:9"], "--address 127.0.0.1:9: no Ray cluster answers there"),
        (["--address", "nonsense"], "expected HOST:PORT or 'auto'"),
        (["--storage", "runs"], "--storage runs is a folder: give it as --shared, with --address"),
        (["--storage", "s3:///runs"], "it names no bucket"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_a_sentence(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["doctor", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output
