"""``compare`` and ``pick`` on the command line, on the tables of a real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.api import pick as pick_from_python
from tests.sweeper.cli.conftest import invoke, json_of, names, refused


def test_compare_prints_the_table_that_it_writes(golden: Path, tmp_path: Path) -> None:
    result = invoke("compare", golden, "--out", tmp_path / "tables", "--format", "tex")
    assert result.exit_code == 0, result.output
    assert result.stdout == (tmp_path / "tables" / "comparison.tex").read_text()


def test_limits_and_constraints_choose_alike_even_from_python_and_only_constraints_recommend(golden: Path) -> None:
    limits = ["verbmem<=0.3", "utility>=0.5"]
    where = [word for limit in limits for word in ("--where", limit)]
    limited = json_of("pick", golden, *where)
    assert (limited["trial_id"], limited["rule"], limited["eligible"]) == ("00016", "constraint", 4)
    assert limited["checkpoint"] is None, "its checkpoint does not exist"
    best = json_of("pick", golden, *where, "--maximize", "utility")
    assert (best["trial_id"], best["eligible"]) == (limited["trial_id"], limited["eligible"])
    assert pick_from_python(golden, where=limits, maximize="utility") == best
    found = json_of("pick", golden, "--constraint", "verbmem<=0.3", "--constraint", "utility>=0.5")
    assert {**found, "judgement": None} == {**limited, "judgement": None}
    assert (limited["judgement"]["recommended"], found["judgement"]["recommended"]) == (False, True)
    baseline = json.loads((golden / "sweep.json").read_text())["baseline"]["utility"]
    assert json_of("pick", golden, "--constraint", "utility>=50%")["metrics"]["utility"] >= baseline / 2


def test_a_constraint_replaces_the_sweeps_own_on_that_metric_alone(golden: Path) -> None:
    content = json.loads((golden / "sweep.json").read_text())
    content["settings"]["constraints"] = ["verbmem<=0.3", "utility>=99%"]
    (golden / "sweep.json").write_text(json.dumps(content))
    found = json_of("pick", golden, "--constraint", "utility>=0.5", "--rule", "success")
    assert found["judgement"]["recommended"]
    line = found["judgement"]["lines"][0]
    assert names(line, ["utility", "verbmem", "0.234", "0.3"])
    assert "99%" not in line


def test_a_checkpoint_is_copied_whole_or_not_at_all_and_never_over_a_folder(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "model"
    (golden / "checkpoints" / "00011").mkdir(parents=True)

    def half(source: str, target: str) -> None:
        Path(target).mkdir()
        (Path(target) / "config.json").write_bytes(b"content")
        raise OSError("the disk is gone")

    monkeypatch.setattr("shutil.copytree", half)
    assert invoke("pick", golden, "--copy-to", copy).exit_code != 0
    assert not copy.exists()
    copy.mkdir()
    (copy / "mine").touch()
    assert names(refused("pick", golden, "--copy-to", copy)[0], [str(copy)])
