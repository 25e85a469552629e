"""Reading several sources as one table, and external tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.figures.pareto import pareto_figure
from analysis.report.report import write_report, write_run_figures
from analysis.tables.note import note
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.sweep_file import SweepFile
from analysis.tables.tasks import by_task
from tests.analysis.conftest import OBJECTIVES, MakeSweep, external_csv, report, trial

ReadCsv = Callable[[str], Sources]


@pytest.fixture
def read_csv(make_sweep: MakeSweep, tmp_path: Path) -> ReadCsv:
    """Read an external table, given the columns and objectives of a sweep."""
    sweep = SweepFile.read(make_sweep(None, name="objectives"))
    return lambda text: read_source(external_csv(tmp_path, text), sweep.columns, objectives=sweep.objectives)


def test_merged_sweeps_keep_their_trials_apart_and_number_equal_names(make_sweep: MakeSweep, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one = make_sweep([trial("0", 7.0, 0.9), trial("1", 1.0, 1.0, checkpoint="")], [report("0", 10, 1.0, 0.1)])
    two = make_sweep([trial("0", 3.0, 0.2)], [report("0", 10, 2.0, 0.2)], name="b/out")
    read = read_sources([one, two], out=tmp_path / "merged")
    assert list(read.table.trials["trial_id"]) == ["out/0", "out/1", "out 2/0"]
    assert list(read.table.trials["checkpoint"]) == ["../out/checkpoints/0", "", "../b/out/checkpoints/0"]
    assert read.table.history_of("out 2/0")["forget_loss"].tolist() == [2.0]
    assert [sweep.command for sweep in read.sweeps] == ["python -m sweeper pareto --method ngdiff"] * 2
    alone = read_sources([one], out=one).table.trials
    assert (list(alone["trial_id"]), list(alone["checkpoint"])) == (["0", "1"], ["checkpoints/0", ""])


def test_sweeps_with_other_models_share_the_widest_box_and_no_baseline(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 1.0, 1.0)], name="one")
    wide = [item | {"high": 11.0} for item in OBJECTIVES]
    two = make_sweep([trial("0", 1.0, 1.0)], name="two", objectives=wide, baseline={"verbmem": 0.5})
    read = read_sources([one, two], out=tmp_path)
    assert ([item.high for item in read.sweep.objectives], read.sweep.baseline) == ([11.0, 11.0], {})
    assert "different_bounds" in [note.code for note in read.table.notes]


def test_sweeps_with_other_objectives_are_refused(make_sweep: MakeSweep, tmp_path: Path) -> None:
    other = [{"name": name, "direction": way, "low": 0, "high": 1} for name, way in (("a", "min"), ("b", "max"))]
    paths = [make_sweep([trial("0", 1.0, 1.0)], name="one"), make_sweep([], name="two", objectives=other)]
    with pytest.raises(AnalysisError, match=r"one and two .*objectives"):
        read_sources(paths, out=tmp_path)
    with pytest.raises(AnalysisError, match=r"sweep\.json"):
        read_sources([tmp_path], out=tmp_path)


@pytest.mark.usefixtures("blank_figures")
def test_external_rows_join_the_frontier_and_are_not_recommended(make_sweep: MakeSweep, tmp_path: Path) -> None:
    """The loss 500 is capped at 8, the loss of a random guess. A row for another data set is on no frontier."""
    rows = "No-unlearn,,0.03,0.01,,\ngdiff,,500,0.1,best,x\ngdiff,,1,7,,y\nSimNPO,muse,7.9,0.1,far,z"
    theirs = external_csv(tmp_path, f"method,dataset,forget_loss,retain_loss,name,unknown\n{rows}")
    sources, out = [make_sweep([trial("0", 6.0, 0.5), trial("1", 3.0, 0.4)]), theirs], tmp_path / "merged"
    write_report(out, sources)
    pareto, page = json.loads((out / "pareto.json").read_text()), " ".join((out / "report.html").read_text().split())
    assert [(item["trial_id"], item["checkpoint"]) for item in pareto["front"]] == [("theirs/best", None)]
    assert (pareto["answer"]["trial_id"], pareto["answer"]["recommended"]) == ("out/0", False)
    for part in ("theirs/best", "theirs: line 2 has the scores of the target", "data set: theirs/far."):
        assert part in page
    read = read_sources(sources, out=out)
    assert read.sweep.baseline["retain_loss"] == 0.05, "that of the sweep, not of the table"
    (part,) = by_task(read)[0].values()
    data = pareto_figure(part.table, part.sweep)
    lines = {line.name: line for line in data.panels[0].lines}
    assert {"ngdiff", "gdiff (theirs)"} <= set(lines)
    assert lines["gdiff (theirs)"].xs == (8.0, 1.0), "the models best and line 4"
    (ring,) = [name for name, line in lines.items() if line.style == "ring"]
    assert "trial out/0" in " ".join(ring.split())
    assert data.subtitle is not None
    facts = dict(data.subtitle.facts)
    assert [facts[name] for name in ("ended", "external", "members")] == [2, 2, 1]


@pytest.mark.usefixtures("blank_figures")
def test_an_infinite_loss_of_a_table_is_noted_and_on_no_frontier(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = external_csv(tmp_path, "method,forget_loss,retain_loss\ngdiff,inf,0.1\n")
    write_report(tmp_path / "merged", [make_sweep([trial("0", 6.0, 0.5)]), theirs])
    front = json.loads((tmp_path / "merged" / "pareto.json").read_text())["front"]
    assert [item["trial_id"] for item in front] == ["out/0"]
    assert re.search(r"inf in theirs/line 2.*finite", (tmp_path / "merged" / "report.html").read_text())


def test_the_no_unlearn_model_of_a_table_counts_if_no_sweep_has_one(make_sweep: MakeSweep, tmp_path: Path) -> None:
    theirs = external_csv(
        tmp_path, "method,forget_loss,retain_loss,utility\ntarget,0.03,0.01,0.8\nSimNPO,7.9,0.1,0.7\n"
    )
    read = read_sources([make_sweep([trial("0", 6.0, 0.5)], baseline=None), theirs], out=tmp_path / "merged")
    assert read.sweep.baseline["retain_loss"] == 0.01
    assert list(read.table.trials["method"]) == ["ngdiff", "SimNPO"]
    assert {read.sweep.baseline_of(row)["utility"] for _, row in read.table.trials.iterrows()} == {0.8}
    assert read.table.notes[-1] == note("target_of_a_table", name="theirs")


def test_an_external_table_may_have_a_status(read_csv: ReadCsv) -> None:
    table = read_csv("method,status,forget_loss,retain_loss\nnpo,diverged,,\nga,finished,1,2\n").table
    assert list(table.finished["method"]) == ["ga"]


def test_spaces_after_the_commas_of_a_table_are_ignored(read_csv: ReadCsv) -> None:
    table = read_csv("method, forget_loss, retain_loss\nga, 1, 2\n").table
    assert table.finished[["method", "forget_loss", "retain_loss"]].to_numpy().tolist() == [["ga", 1, 2]]


def test_a_share_may_exceed_1_by_rounding(read_csv: ReadCsv) -> None:
    table = read_csv("method,forget_loss,retain_loss,utility\nga,9,2,1.0000001\n").table
    assert table.finished["utility"].tolist() == [1.0000001]


LOSSES = "method,forget_loss,retain_loss"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("method,forget_loss\nga,1\n", r"line 1: .*forget_loss and retain_loss"),
        ("forget_loss,retain_loss\n1,2\n", r"column method.*forget_loss, retain_loss"),
        ("method;forget_loss;retain_loss\nga;1,5;2\n", r"column method.*commas between the columns, and points"),
        (f"{LOSSES}\nga,1,2\nga,much,2\n", r"line 3: forget_loss is 'much'.*number"),
        (f"{LOSSES}\n,1,2\n", r"line 2: .*'method'"),
        (f"{LOSSES},name\nga,1,2,a\nga,1,2,a\n", r"line 3: name 'a'"),
        (f"{LOSSES},status\nga,1,2,done\n", r"line 2: status is 'done'.*finished"),
        (f"{LOSSES},utility\nga,1,2,0.5\nnpo,1,2,58.4\n", r"line 3: utility is 58.4.*0 to 1.*divide percentages"),
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
    points = "".join(f"abc,1,0.1,{x},{1 + x},{2 - x},1,1,1,1\n" for x in (-0.1, 0.0, 0.2))
    header = "trial_id,step,eta,x,retain_loss,forget_loss,slope,curvature,loss_zero,eta_star"
    (run / "landscape.csv").write_text(f"{header}\n{points}")
    merged = read_sources([sweep, run], out=tmp_path).table
    assert list(merged.finished["trial_id"]) == ["sweep/0", "run/abc"]
    assert merged.finished["forget_loss_capped"].tolist() == [3.0, 5.0]
    assert list(merged.finished["checkpoint"])[1] == "run/checkpoint"
    figures = [path.stem for path in write_run_figures(run, merged.columns)]
    assert figures == ["loss_landscape", "metrics_over_steps", "gradients_over_steps"]
    (run / "metrics.json").write_text("{")
    with pytest.raises(AnalysisError, match=r"metrics\.json.*JSON"):
        read_source(run, merged.columns)
