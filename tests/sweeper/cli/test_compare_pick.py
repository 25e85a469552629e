"""``compare`` and ``pick`` on the command line, over the tables of a real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sweeper.cli.conftest import invoke, json_of, names, refused

# compare ------------------------------------------------------------------------------------------------------------


def test_compare_has_the_same_table_in_every_format(golden: Path, tmp_path: Path) -> None:
    result = invoke("compare", golden, "--out", tmp_path / "tables", "--format", "tex")
    assert result.exit_code == 0, result.output
    assert result.stdout == (tmp_path / "tables" / "comparison.tex").read_text()
    (table,) = json_of("compare", golden)["tables"]
    assert [row["method"] for row in table["rows"]] == ["gdiff", "ngdiff"]
    assert table["baseline"]["values"]["verbmem"]["mean"] == pytest.approx(0.9970588235)


def test_wrong_sources_and_formats_of_compare_are_named(tmp_path: Path) -> None:
    missing, unknown = refused("compare", "--format", "pdf")
    assert missing
    assert names(unknown, ["pdf", "md", "tex", "csv", "html"])
    for problem, folder in zip(refused("compare", tmp_path / "no", tmp_path), ("no", ""), strict=True):
        assert names(problem, [str(tmp_path / folder)])


# pick ---------------------------------------------------------------------------------------------------------------


def test_pick_has_the_trial_the_rule_and_the_checkpoint(golden: Path) -> None:
    result = invoke("pick", golden)
    assert result.exit_code == 0, result.output
    assert names(result.stdout, ["trial 00011", "gdiff", f"{golden}/checkpoints/00011"])
    result = invoke("pick", golden, "--json")
    assert json.loads(result.stdout)["checkpoint"] is None
    assert names(result.stderr, ["00011", f"{golden}/checkpoints/00011"])
    (golden / "checkpoints" / "00011").mkdir(parents=True)
    assert json_of("pick", golden)["checkpoint"] == f"{golden}/checkpoints/00011"


def test_a_constraint_is_a_limit_on_any_metric(golden: Path) -> None:
    limited = json_of("pick", golden, "--max-verbmem", "0.3", "--min-utility", "0.5")
    assert (limited["trial_id"], limited["rule"], limited["eligible"]) == ("00016", "constraint", 4)
    assert limited["metrics"]["utility"] == pytest.approx(0.814, abs=1e-3)
    stated = ("--constraint", "verbmem<=0.3", "--constraint", "utility>=0.5")
    found = json_of("pick", golden, *stated)
    assert {**found, "judgement": None} == {**limited, "judgement": None}
    assert (limited["judgement"]["recommended"], found["judgement"]["recommended"]) == (False, True)
    assert names(found["judgement"]["lines"][0], ["verbmem", "0.234", "0.3"])
    meets = json_of("pick", golden, *stated, "--rule", "success")
    assert (meets["trial_id"], meets["judgement"]["recommended"]) == ("00016", True)
    baseline = json.loads((golden / "sweep.json").read_text())["baseline"]["utility"]
    assert json_of("pick", golden, "--constraint", "utility>=50%")["metrics"]["utility"] >= baseline / 2
    best = json_of("pick", golden, "--constraint", "utility>=0")["metrics"]["utility"]
    assert invoke("pick", golden, "--constraint", f"utility>={best!r}").exit_code == 0
    assert refused("pick", golden, "--constraint", f"utility>{best!r}")


def test_a_constraint_replaces_the_sweeps_own_on_that_metric_alone(golden: Path) -> None:
    content = json.loads((golden / "sweep.json").read_text())
    content["settings"]["constraints"] = ["verbmem<=0.3", "utility>=99%"]
    (golden / "sweep.json").write_text(json.dumps(content))
    found = json_of("pick", golden, "--constraint", "utility>=0.5", "--rule", "success")
    assert found["judgement"]["recommended"]
    line = found["judgement"]["lines"][0]
    assert names(line, ["utility", "verbmem", "0.234", "0.3"])
    assert "99%" not in line


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_checkpoint_is_copied_whole_or_not_at_all(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    copy = tmp_path / "model"
    assert names(refused("pick", golden, "--copy-to", copy)[0], ["00011"])
    chosen = golden / "checkpoints" / "00011"
    chosen.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (chosen / name).write_bytes(b"content")

    def half(source: str, target: str) -> None:
        Path(target).mkdir()
        (Path(target) / "config.json").write_bytes(b"content")
        raise OSError("the disk is gone")

    if is_broken:
        monkeypatch.setattr("shutil.copytree", half)
        assert invoke("pick", golden, "--copy-to", copy).exit_code != 0
        assert not copy.exists()
    else:
        assert invoke("pick", golden, "--copy-to", copy).exit_code == 0
        assert (copy / "model.safetensors").read_bytes() == b"content"
        assert names(refused("pick", golden, "--copy-to", copy)[0], [str(copy)])


def test_if_nothing_qualifies_the_nearest_value_is_reported(golden: Path) -> None:
    assert names(refused("pick", golden, "--max-verbmem", "0.001")[0], ["0.00812"])
    assert refused("pick", golden, "--rule", "success")
    (golden / "trials.csv").unlink()
    assert names(refused("pick", golden)[0], ["0"])


def test_all_problems_of_pick_are_listed_at_once(golden: Path, tmp_path: Path) -> None:
    assert len(refused("pick", golden, "--constraint", "speed>=1", "--constraint", "utility", "--rule", "best")) == 3
    wrong = ("--rule", "best", "--max-verbmem", "low", "--min-utility", "nan")
    expected = (["--max-verbmem", "low"], ["--min-utility", "nan"], ["best", "knee", "constraint", "success"])
    problems = refused("pick", tmp_path, *wrong)
    assert all(names(*pair) for pair in zip(problems, (*expected, [str(tmp_path)]), strict=True))
