"""Several sources as one table: whose trial is whose, and what an external table may hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.figures.pareto import pareto_data
from analysis.frontier.frontier import frontier
from analysis.report.report import write_report, write_run_figures
from analysis.tables.note import note
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.sweep_file import SweepFile
from tests.analysis.conftest import MakeSweep, report, trial

ReadCsv = Callable[[str], Sources]


@pytest.fixture
def read_csv(make_sweep: MakeSweep, tmp_path: Path) -> ReadCsv:
    """An external table, for the objectives of a sweep."""
    sweep = SweepFile.read(make_sweep(None, name="objectives"))
    return lambda text: read_source(_csv(tmp_path, text), sweep.columns, objectives=sweep.objectives)


def _csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "theirs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_merged_sweeps_keep_their_trials_apart(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 7.0, 0.9)], [report("0", 10, 1.0, 0.1)], name="one")
    two = make_sweep([trial("0", 3.0, 0.2)], [report("0", 10, 2.0, 0.2)], name="two")
    read = read_sources([one, two], out=tmp_path / "merged")
    assert list(read.table.trials["trial_id"]) == ["one/0", "two/0"]
    assert read.table.history_of("two/0")["forget_loss"].tolist() == [2.0]
    assert list(read.table.trials["checkpoint"]) == ["../one/checkpoints/0", "../two/checkpoints/0"]
    assert set(frontier(read.table, read.sweep.objectives).trial_ids) == {"one/0", "two/0"}
    assert [sweep.command for sweep in read.sweeps] == ["python -m sweeper pareto --method ngdiff"] * 2


def test_folders_of_one_name_are_numbered_and_one_alone_is_not(make_sweep: MakeSweep, tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(make_sweep([trial("0", 1.0, 1.0), trial("1", 1.0, 1.0, checkpoint="")], name=f"{name}/out"))
    trials = read_sources(paths, out=tmp_path).table.trials
    assert list(trials["trial_id"]) == ["out/0", "out/1", "out 2/0", "out 2/1"]
    alone = read_sources(paths[:1], out=paths[0]).table.trials
    assert (list(alone["trial_id"]), list(alone["checkpoint"])) == (["0", "1"], ["checkpoints/0", ""])


def test_sweeps_with_other_models_share_the_widest_box_and_no_baseline(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 1.0, 1.0)], name="one")
    wide = [item | {"high": 11.0} for item in json.loads((one / "sweep.json").read_text())["objectives"]]
    two = make_sweep([trial("0", 1.0, 1.0)], name="two", objectives=wide, baseline={"verbmem": 0.5})
    read = read_sources([one, two], out=tmp_path)
    assert [item.high for item in read.sweep.objectives] == [11.0, 11.0]
    assert read.sweep.baseline == {}
    assert "different_bounds" in [note.code for note in read.table.notes]


def test_sweeps_with_other_objectives_are_refused(make_sweep: MakeSweep, tmp_path: Path) -> None:
    other = [{"name": name, "direction": way, "low": 0, "high": 1} for name, way in (("a", "min"), ("b", "max"))]
    paths = [make_sweep([trial("0", 1.0, 1.0)], name="one"), make_sweep([], name="two", objectives=other)]
    with pytest.raises(AnalysisError, match=r"one and two .*objectives"):
        read_sources(paths, out=tmp_path)
    with pytest.raises(AnalysisError, match=r"sweep\.json"):
        read_sources([tmp_path], out=tmp_path)


def reported(out: Path, *sources: Path) -> tuple[Sources, dict[str, Any], str]:
    write_report(out, sources)
    pareto, page = (out / "pareto.json").read_text(), (out / "report.html").read_text()
    return read_sources(sources, out=out), json.loads(pareto), " ".join(page.split())


@pytest.mark.usefixtures("blank_figures")
def test_external_rows_join_the_frontier_under_their_own_mark(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = _csv(tmp_path, "method,forget_loss,retain_loss,name,unknown\ngdiff,500,0.1,best,x\ngdiff,1,7,,y")
    read, pareto, _ = reported(tmp_path / "merged", make_sweep([trial("0", 3.0, 0.2)]), theirs)
    own, external = pareto_data(read.table, read.sweep).methods
    assert [(item.name, item.external) for item in (own, external)] == [("ngdiff", False), ("gdiff (theirs)", True)]
    # A loss beyond a random guess is capped: 500 counts as 8.
    assert [(point.trial_id, point.x) for point in external.points] == [("theirs/best", 8.0), ("theirs/line 3", 1.0)]
    assert [(item["trial_id"], item["checkpoint"]) for item in pareto["front"]] == [("theirs/best", None)]


@pytest.mark.usefixtures("blank_figures")
def test_a_better_external_row_is_mentioned_and_not_recommended(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = _csv(tmp_path, "method,forget_loss,retain_loss\nNo-unlearn,0.03,0.01\nSimNPO,7.9,0.1\n")
    sweep = make_sweep([trial("0", 6.0, 0.5), trial("1", 3.0, 0.4)])
    read, pareto, page = reported(tmp_path / "merged", sweep, theirs)
    assert (pareto["answer"]["trial_id"], pareto["answer"]["recommended"]) == ("out/0", True)
    assert "theirs/line 3" in page
    assert list(read.table.trials["trial_id"]) == ["out/0", "out/1", "theirs/line 3"]
    assert "theirs: No-unlearn (line 2)" in page
    assert read.sweep.baseline["retain_loss"] == 0.05, "that of the sweep, not of the table"
    data = pareto_data(read.table, read.sweep)
    assert data.chosen is not None
    assert data.chosen.point.trial_id == "out/0"
    assert (data.counts.ended, data.counts.external, data.counts.members) == (2, 1, 1)


@pytest.mark.usefixtures("blank_figures")
def test_a_row_about_another_data_set_is_on_no_frontier(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = _csv(tmp_path, "method,dataset,forget_loss,retain_loss\nSimNPO,muse,7.9,0.1\n")
    _, pareto, page = reported(tmp_path / "merged", make_sweep([trial("0", 6.0, 0.5)]), theirs)
    assert [item["trial_id"] for item in pareto["front"]] == ["out/0"]
    assert "data set: theirs/line 2." in page


def test_the_no_unlearn_model_of_a_table_counts_if_no_sweep_has_one(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = _csv(tmp_path, "method,forget_loss,retain_loss,utility\ntarget,0.03,0.01,0.8\nSimNPO,7.9,0.1,0.7\n")
    read = read_sources([make_sweep([trial("0", 6.0, 0.5)], baseline=None), theirs], out=tmp_path / "merged")
    assert read.sweep.baseline["retain_loss"] == 0.01
    assert list(read.table.trials["method"]) == ["ngdiff", "SimNPO"]
    assert {read.sweep.baseline_of(row)["utility"] for _, row in read.table.trials.iterrows()} == {0.8}
    assert read.table.notes[-1] == note("target_of_a_table", name="theirs")


def test_an_external_row_ends_as_its_status_says(read_csv: ReadCsv) -> None:
    table = read_csv("method,status,forget_loss,retain_loss\nnpo,diverged,,\nga,finished,1,2\n").table
    assert list(table.finished["method"]) == ["ga"]


def test_a_table_of_scores_alone_is_read_and_scores_no_losses(read_csv: ReadCsv) -> None:
    table = read_csv("\ufeffmethod,verbmem,utility\nnpo,0.1,0.7\n").table
    assert table.finished["verbmem"].tolist() == [0.1]
    assert "forget_loss_capped" not in table.trials.columns


LOSSES = "method,forget_loss,retain_loss"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("method,forget_loss\nga,1\n", r"line 1: .*forget_loss and retain_loss"),
        ("forget_loss,retain_loss\n1,2\n", r"column method.*forget_loss, retain_loss"),
        (f"{LOSSES}\nga,1,2\nga,much,2\n", r"line 3: forget_loss is 'much'.*number"),
        (f"{LOSSES}\n,1,2\n", r"line 2: method"),
        (f"{LOSSES}\nga,1\n", r"line 2: 2 .*3"),
        (f"{LOSSES},name\nga,1,2,a\nga,1,2,a\n", r"line 3: name 'a'"),
        (f"{LOSSES},lr\nga,1,2,slow\n", r"line 2: lr is 'slow'.*number"),
        (f"{LOSSES},status\nga,1,2,done\n", r"line 2: status is 'done'.*finished"),
        ("", r"empty"),
    ],
)
def test_an_error_in_a_table_names_file_line_and_column(read_csv: ReadCsv, text: str, named: str) -> None:
    with pytest.raises(AnalysisError, match=rf"theirs\.csv.*{named}"):
        read_csv(text)


def test_a_single_run_joins_a_sweep_and_has_figures_alone(make_sweep: MakeSweep, tmp_path: Path) -> None:
    sweep = make_sweep([trial("0", 3.0, 0.2)], name="sweep")
    run = make_sweep(None, [report("abc", step, 1.0, 0.1) for step in (10, 20)], name="run")
    (run / "sweep.json").unlink()
    row = trial("abc", 5.0, 0.4, checkpoint="checkpoint") | {"error": None, "c": None}
    (run / "metrics.json").write_text(json.dumps(row), encoding="utf-8")
    merged = read_sources([sweep, run], out=tmp_path).table
    assert list(merged.finished["trial_id"]) == ["sweep/0", "run/abc"]
    assert np.isfinite(merged.finished["forget_loss_capped"]).all()
    assert list(merged.finished["checkpoint"])[1] == "run/checkpoint"
    figures = [path.stem for path in write_run_figures(run, merged.columns)]
    assert figures == ["metrics_over_steps", "gradients_over_steps"]
    (run / "metrics.json").write_text("{")
    with pytest.raises(AnalysisError, match=r"metrics\.json.*JSON"):
        read_source(run, merged.columns)
