"""``compare`` and ``pick`` on the command line, over the tables of a real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sweeper.commands.conftest import invoke, refused

# compare ------------------------------------------------------------------------------------------------------------


def test_compare_prints_one_format_and_writes_all_four(golden: Path, tmp_path: Path) -> None:
    result = invoke("compare", golden, "--out", tmp_path / "tables", "--format", "tex")
    assert result.exit_code == 0, result.output
    assert result.stdout == (tmp_path / "tables" / "comparison.tex").read_text()
    written = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert written == [f"comparison.{suffix}" for suffix in ("csv", "html", "md", "tex")]
    (table,) = json.loads(invoke("compare", golden, "--json").stdout)["tables"]
    assert [row["method"] for row in table["rows"]] == ["gdiff", "ngdiff"]
    assert table["baseline"]["values"]["verbmem"]["mean"] == pytest.approx(0.9970588235)


def test_compare_says_what_is_wrong(tmp_path: Path) -> None:
    assert refused("compare", "--format", "pdf") == [
        "name at least one sweep folder or CSV file to compare",
        "unknown format 'pdf': expected one of md, tex, csv, html",
    ]
    assert refused("compare", tmp_path / "no", tmp_path) == [
        f"{tmp_path / 'no'} holds no sweep: there is no such folder",
        f"{tmp_path} holds no sweep: there is no sweep.json in it",
    ]


# pick ---------------------------------------------------------------------------------------------------------------


def test_pick_prints_the_trial_the_reason_and_the_checkpoint(golden: Path) -> None:
    result = invoke("pick", golden)
    assert result.exit_code == 0, result.output
    assert "trial 00011: gdiff" in result.stdout
    assert "why: closest to the thresholds" in result.stdout
    assert f"checkpoint: {golden}/checkpoints/00011 (not there any more)" in result.stdout
    content = json.loads(invoke("pick", golden, "--max-verbmem", "0.3", "--min-utility", "0.5", "--json").stdout)
    assert (content["trial_id"], content["rule"], content["eligible"]) == ("00016", "constraint", 4)
    assert content["metrics"]["utility"] == pytest.approx(0.814, abs=1e-3)


def test_a_constraint_of_pick_is_a_limit_on_any_metric(golden: Path) -> None:
    limited = json.loads(invoke("pick", golden, "--max-verbmem", "0.3", "--min-utility", "0.5", "--json").stdout)
    stated = ("--constraint", "verbmem<=0.3", "--constraint", "utility>=0.5", "--json")
    found = json.loads(invoke("pick", golden, *stated).stdout)
    assert {**found, "judgement": None} == {**limited, "judgement": None}
    assert (limited["judgement"]["recommended"], found["judgement"]["recommended"]) == (False, True)
    assert "It meets the thresholds stated: verbmem 0.234 (at most 0.3)" in found["judgement"]["lines"][0]
    meets = json.loads(invoke("pick", golden, *stated, "--rule", "success").stdout)
    assert (meets["trial_id"], meets["judgement"]["recommended"]) == ("00016", True)
    baseline = json.loads((golden / "sweep.json").read_text())["baseline"]["utility"]
    share = json.loads(invoke("pick", golden, "--constraint", "utility>=50%", "--json").stdout)
    assert share["metrics"]["utility"] >= baseline / 2


def test_a_constraint_of_pick_takes_the_place_of_the_sweeps_own_on_that_metric_alone(golden: Path) -> None:
    content = json.loads((golden / "sweep.json").read_text())
    content["settings"]["constraints"] = ["verbmem<=0.3", "utility>=99%"]
    (golden / "sweep.json").write_text(json.dumps(content))
    found = json.loads(invoke("pick", golden, "--constraint", "utility>=0.5", "--rule", "success", "--json").stdout)
    assert found["judgement"]["recommended"]
    (line,) = found["judgement"]["lines"][:1]
    assert line.startswith("It meets the thresholds stated: utility ")
    assert "verbmem 0.234 (at most 0.3)" in line
    assert "99%" not in line


def test_a_strict_constraint_of_pick_is_missed_where_it_is_hit(golden: Path) -> None:
    best = json.loads(invoke("pick", golden, "--constraint", "utility>=0", "--json").stdout)["metrics"]["utility"]
    assert invoke("pick", golden, "--constraint", f"utility>={best!r}").exit_code == 0
    assert "no " in refused("pick", golden, "--constraint", f"utility>{best!r}")[0]


def test_constraints_of_pick_that_make_no_sense_are_told_together(golden: Path) -> None:
    problems = refused("pick", golden, "--constraint", "speed>=1", "--constraint", "utility", "--rule", "best")
    assert len(problems) == 3


def test_pick_names_no_checkpoint_that_is_not_there(golden: Path) -> None:
    result = invoke("pick", golden, "--json")
    assert json.loads(result.stdout)["checkpoint"] is None
    assert result.stderr == f"the checkpoint of trial 00011 is not there: {golden}/checkpoints/00011\n"
    (golden / "checkpoints" / "00011").mkdir(parents=True)
    result = invoke("pick", golden, "--json")
    assert json.loads(result.stdout)["checkpoint"] == f"{golden}/checkpoints/00011"
    assert result.stderr == ""


def test_pick_copies_the_checkpoint(golden: Path, tmp_path: Path) -> None:
    chosen = golden / "checkpoints" / "00011"
    chosen.mkdir(parents=True)
    (chosen / "model.safetensors").write_bytes(b"weights")
    assert invoke("pick", golden, "--copy-to", tmp_path / "model").exit_code == 0
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"weights"
    assert "exists already" in refused("pick", golden, "--copy-to", tmp_path / "model")[0]


def test_a_copy_that_breaks_off_leaves_nothing_under_its_name(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = golden / "checkpoints" / "00011"
    chosen.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (chosen / name).write_bytes(b"content")

    def half(source: str, target: str) -> None:
        Path(target).mkdir()
        (Path(target) / "config.json").write_bytes(b"content")
        raise OSError("the disk is gone")

    monkeypatch.setattr("shutil.copytree", half)
    assert invoke("pick", golden, "--copy-to", tmp_path / "model").exit_code != 0
    assert not (tmp_path / "model").exists()


def test_pick_says_when_nothing_qualifies(golden: Path, tmp_path: Path) -> None:
    assert "the lowest of all is 0.00812" in refused("pick", golden, "--max-verbmem", "0.001")[0]
    assert "meets all thresholds" in refused("pick", golden, "--rule", "success")[0]
    assert "the checkpoint of trial 00011 is not there" in refused("pick", golden, "--copy-to", tmp_path / "m")[0]
    (golden / "trials.csv").unlink()
    assert refused("pick", golden) == ["no trial has finished (0 trials in the table)"]


def test_pick_tells_all_problems_at_once(tmp_path: Path) -> None:
    assert refused("pick", tmp_path, "--rule", "best", "--max-verbmem", "low", "--min-utility", "nan") == [
        "--max-verbmem must be a number, got 'low'",
        "--min-utility must be a finite number, got nan",
        "unknown rule 'best': expected one of knee, constraint, success",
        f"{tmp_path} holds no sweep: there is no sweep.json in it",
    ]
