"""Plug-ins at the command line, from an installed package, and in a sweep's folder.

A process of its own for each command: plug-ins come before anything that chooses from parts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.plugins import described, keep, take_up
from tests.toy_plugin import TOY
from trainables import plugins

ROOT = Path(__file__).parents[2]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def sweeper(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "installed")]),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [sys.executable, "-m", "sweeper", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_list_shows_whose_a_part_is(toy: Path) -> None:
    rows = json.loads(sweeper(toy.parent, "list", "methods", "--plugin", "toy.py", "--json").stdout)
    assert {row["name"]: row["yours"] for row in rows if row["yours"]} == {"toy": str(toy)}


def test_an_installed_package_brings_its_parts_without_a_word(toy: Path) -> None:
    installed = toy.parent / "installed"
    (installed / "toys-1.0.dist-info").mkdir(parents=True)
    (installed / "toys-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (installed / "toys-1.0.dist-info" / "entry_points.txt").write_text("[sweeper.plugins]\nmy-toys = toys_parts\n")
    (installed / "toys_parts.py").write_text(TOY)
    rows = json.loads(sweeper(toy.parent, "list", "methods", "--json").stdout)
    assert {row["name"]: row["yours"] for row in rows if row["yours"]} == {"toy": "my-toys (installed with toys)"}
    (installed / "toys_parts.py").write_text("import nowhere_at_all\n")
    told = sweeper(toy.parent, "list", "methods", code=2).stderr
    assert "my-toys (installed with toys): toys_parts does not import: ModuleNotFoundError" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('"toy"', '"ngdiff"'), "toy.py, line 4: there is a weighting called 'ngdiff' already; rename yours"),
        (('"toy"', '"npo"'), "toy.py, line 4: there is a method or a set of metrics called 'npo' already"),
        (('"share"', '"lr"'), "toy.py, line 4: lr of weighting 'toy' is the name of another column; rename it"),
        (("WEIGHTING", "WEIGHTINGS"), "there is no part in it"),
        (
            ("from search_spaces", "import trainables.methods\nfrom search_spaces"),
            "what it imports looks through all methods",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(toy: Path, change: tuple[str, str], told: str) -> None:
    toy.write_text(TOY.replace(*change))
    done = sweeper(toy.parent, "pareto", "--plugin", "toy.py", "--method", "toy", code=2)
    assert told in done.stderr
    assert "error: " in done.stderr


def test_all_that_is_broken_is_told_at_once_and_alone(toy: Path) -> None:
    (toy.parent / "bad.py").write_text("x = (\n")
    (toy.parent / "toy").mkdir()
    words = ("--plugin", "bad.py", "--plugin", "gone.py", "--plugin", "toy.py", "--method", "nothing")
    lines = sweeper(toy.parent, "unlearn", *words, code=2).stderr.splitlines()
    assert len(lines) == 2
    assert "bad.py, line 1: '(' was never closed" in lines[0]
    assert "gone.py: no such file" in lines[1]


def test_two_plugins_of_one_name_are_refused(toy: Path) -> None:
    (toy.parent / "other").mkdir()
    (toy.parent / "other" / "toy.py").write_text(TOY + "# another\n")
    done = sweeper(toy.parent, "list", "methods", "--plugin", "toy.py", "--plugin", "other/toy.py", code=2)
    assert "two plug-ins are called toy.py" in done.stderr


def test_other_problems_of_a_run_with_a_plugin_are_told_as_ever(toy: Path) -> None:
    done = sweeper(toy.parent, "unlearn", "--plugin", "toy.py", "--method", "toy", "--option", "share=7", code=2)
    assert "share must be in [0, 1], got 7" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--template", "nothing"], "unknown template 'nothing': expected one of question-answer, chat"),
        (["--template", "gone.jinja"], "gone.jinja: no such file"),
        (["--template", "chat"], "template chat: model tiny-phi is made here"),
        (["--template", "chat", "--model", "tiny-resnet"], "template does not apply to image classifiers"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(tmp_path: Path, words: list[str], told: str) -> None:
    assert told in sweeper(tmp_path, "unlearn", *words, code=2).stderr


# A sweep's folder ------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep that began with the plug-in; the process has it still."""
    monkeypatch.setattr(plugins, "_active", [plugins.read(toy)])
    out = toy.parent / "out"
    out.mkdir()
    keep(out)
    (out / "sweep.json").write_text(json.dumps({"plugins": described()}))
    return out


def test_a_sweep_keeps_its_own_copy_and_says_what_is_in_it(begun: Path) -> None:
    (entry,) = json.loads((begun / "sweep.json").read_text())["plugins"]
    assert (begun / entry["file"]).read_text() == TOY
    assert (entry["name"], entry["parts"], len(entry["digest"])) == ("toy.py", ["weighting toy"], 16)
    assert take_up(begun) == []


def test_a_changed_original_is_told_and_the_copy_counts(begun: Path, toy: Path) -> None:
    toy.write_text(TOY + "# changed\n")
    (line,) = take_up(begun)
    copy = begun / "plugins" / "toy.py"
    assert line == f"plug-in {toy} has changed since the sweep began; it goes on with its own copy, {copy}"
    toy.unlink()
    assert take_up(begun) == []


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_another_copy_than_the_sweeps_is_refused(begun: Path, damage: str) -> None:
    copy = begun / "plugins" / "toy.py"
    copy.write_text(TOY + "# changed\n")
    if damage == "gone":
        copy.unlink()
    with pytest.raises(plugins.PluginError, match="is not the plug-in that the sweep began with"):
        take_up(begun)


def test_a_folder_of_before_there_were_plugins_has_none(tmp_path: Path) -> None:
    assert take_up(tmp_path) == []
    (tmp_path / "sweep.json").write_text("{}")
    assert take_up(tmp_path) == []


@pytest.mark.parametrize("place", ["../toy.py", "plugins/../../toy.py", "/etc/toy.py"])
def test_a_folder_from_elsewhere_cannot_name_a_plugin_outside_it(tmp_path: Path, toy: Path, place: str) -> None:
    digest = plugins.digest_of(toy.read_text())
    named = {"name": "toy.py", "path": str(toy), "file": place, "digest": digest, "parts": []}
    (tmp_path / "sweep" / "plugins").mkdir(parents=True)
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps({"plugins": [named]}))
    with pytest.raises(plugins.PluginError, match="is not in the sweep's own plugins/"):
        take_up(tmp_path / "sweep")
