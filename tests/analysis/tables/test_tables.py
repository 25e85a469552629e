"""Reading the tables and sweep.json of a folder, even while another process writes them."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from analysis.tables.csv_rows import read_rows
from analysis.tables.note import note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.common.durable import exclusive
from search_spaces.common.objective import Objective
from sweeper.store.columns import column_dictionary
from tests.analysis.conftest import MakeSweep, report, trial

TORN = ("3", "3,", "3,fini", '3,"half an er')


@pytest.mark.parametrize(
    ("text", "rows", "torn"),
    [
        (None, [], False),
        ("", [], False),
        ("a,", [], True),
        ('a,b\n007,"x, y"\n\n8,"two\nlines"\n9,\n', [(2, "007", "x, y"), (4, "8", "two\nlines"), (6, "9", "")], False),
        ("\ufeffa,b\r\n1,x\r\n", [(2, "1", "x")], False),
        *(("a,b\n1,x\n2,y\n" + tail, [(2, "1", "x"), (3, "2", "y")], True) for tail in TORN),
    ],
)
def test_complete_rows_keep_their_text_and_know_their_lines(
    tmp_path: Path, text: str | None, rows: list[tuple[object, ...]], torn: bool
) -> None:
    path = tmp_path / "trials.csv"
    if text is not None:
        path.write_bytes(text.encode())
    cells, is_torn = read_rows(path, required=["a", "b"])
    assert (list(cells), is_torn) == (["a", "b"], torn)
    assert [tuple(row) for row in cells.itertuples()] == rows


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"a,b\n1,2\n", "columns c, d.*a, b"),
        (b"a,c,d,a\n1,2,3,4\n", "column a"),
        (b"a,c,d\n1,2,3\n4,5\n6,7,8\n", "line 3: .*2 cells.*3"),
        (b'a,c,d\n1,"2"x,3\n4,5,6\n', "line 2: .*not valid CSV"),
        (b"a,c,d\n1,\xff,3\n", "UTF-8"),
        (b'a,c,d\n"1,2,3\n4,5,6\n7,8,9\n', "line 2: .*quotation mark.* never closed"),
        (b"a,c,d\n1,2,3\n4,5,\0\0\n", "line 3:.*zero bytes"),
        (b"a,c,d,checkpoint\n1,2,3,checkpoints/../../x\n", "line 2: checkpoint"),
        (b"a,c,d,trial_id\n1,2,3,..\\..\\x\n", "line 2: trial_id"),
    ],
)
def test_a_malformed_file_is_named_with_place_and_expectation(tmp_path: Path, text: bytes, named: str) -> None:
    path = tmp_path / "trials.csv"
    path.write_bytes(text)
    with pytest.raises(AnalysisError, match=rf"trials\.csv.*{named}"):
        read_rows(path, required=["a", "c", "d"])


def test_ids_stay_text_numbers_become_numbers_and_a_missing_metric_is_nan(make_sweep: MakeSweep) -> None:
    first = trial("00007", 5.0, 0.1, method="gdiff", c=0.25, target_key="000123")
    failed = trial("00010", None, None, status="failed", checkpoint="", error="out of memory")
    row, lost = (item for _, item in TrialTable.read(make_sweep([first, failed])).trials.iterrows())
    assert (row["trial_id"], row["spec_hash"], row["target_key"]) == ("00007", "000007e5", "000123")
    assert (row["c"], row["lr"], row["seed"]) == (0.25, 1e-4, 0)
    assert math.isnan(lost["forget_loss"])
    assert (lost["checkpoint"], lost["error"]) == ("", "out of memory")


def test_a_deleted_table_is_refused_with_the_command_that_rebuilds_it(make_sweep: MakeSweep) -> None:
    out = make_sweep(None)
    assert TrialTable.read(out).trials.empty
    (out / "events.jsonl").touch()
    with exclusive(out, RuntimeError()):
        assert TrialTable.read(out).trials.empty, "the sweep is running, and writes the table next"
    with pytest.raises(AnalysisError, match=r"trials\.csv is missing.*\n.*sweeper resume .*/out$"):
        TrialTable.read(out)


def test_deleted_candidates_are_refused_only_if_all_epochs_count(make_sweep: MakeSweep) -> None:
    for candidates, is_refused in (("last", False), ("all", True)):
        out = make_sweep([trial("0", 4.0, 4.0)], settings={"candidates": candidates}, name=candidates)
        (out / "events.jsonl").touch()
        if is_refused:
            with pytest.raises(AnalysisError, match=r"candidates\.csv is missing"):
                TrialTable.read(out)
        else:
            assert len(TrialTable.read(out).trials) == 1


def test_a_torn_last_row_and_a_second_row_of_a_trial_are_left_out_and_noted(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("0", 9.0, 9.0), trial("1", 2.0, 1.0)])
    path = out / "trials.csv"
    path.write_text(path.read_text().rstrip("\n"))
    table = TrialTable.read(out)
    assert table.trials[["trial_id", "retain_loss"]].to_numpy().tolist() == [["0", 1.0]]
    assert table.notes == (
        note("incomplete_line", file="trials.csv"),
        note("repeated_rows", file="trials.csv", trials=("0",)),
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"retain_loss": "big"}, "retain_loss is 'big'.*number"),
        ({"status": "done"}, "status is 'done'.*finished, stopped, diverged, failed"),
        ({"trial_id": ""}, "trial_id.*empty"),
        ({"seed": 0.5}, "seed is '0.5'.*whole number"),
    ],
)
def test_a_bad_cell_is_named_with_its_place(make_sweep: MakeSweep, fields: dict[str, object], named: str) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("1", 1.0, 1.0, **fields)])
    with pytest.raises(AnalysisError, match=rf"trials\.csv, line 3.*{named}"):
        TrialTable.read(out)


def test_the_history_of_a_trial_is_in_the_order_of_its_steps(make_sweep: MakeSweep) -> None:
    """A step that a restarted worker reported again counts once, and an incomplete last line does not count."""
    reports = [report("1", step, loss, 0.2) for step, loss in ((20, 9.0), (20, 2.0), (10, 1.0))]
    out = make_sweep([trial("1", 2.0, 0.2)], [report("0", 10, 9.0, 0.9), *reports])
    with (out / "history.csv").open("a") as file:
        file.write("1,30,2.0,0.0001,0.5,1.")
    table = TrialTable.read(out)
    assert table.history_of("1")[["step", "forget_loss"]].to_numpy().tolist() == [[10, 1.0], [20, 2.0]]
    assert table.running == ("0",)


def test_missing_and_invalid_values_are_unknown(make_sweep: MakeSweep) -> None:
    sweep = SweepFile.read(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (sweep.objectives, sweep.random_guess_loss, sweep.baseline, sweep.planned_trials) == ((), None, {}, 0)
    baseline = {"verbmem": float("nan"), "utility": None, "retain_loss": 1}
    partly = SweepFile.read(make_sweep([], baseline=baseline, settings={}, name="partly"))
    assert (partly.baseline, partly.planned_trials) == ({"retain_loss": 1.0}, None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "sweep.json"),
        ('{"format": 2,', "JSON"),
        ('{"format": 1}', "format 1.*2"),
        ("[1]", "format list.*2"),
        ('{"format": 2, "settings": [1]}', "damaged"),
        ('{"format": 2, "objectives": [{"name": "x"}]}', "damaged.*'direction'"),
        ('{"format": 2, "objectives": [{"name": "x", "low": 0, "high": 8, "direction": "up"}]}', "'up'.*min or max"),
        ('{"format": 2, "objectives": [{"name": "x", "low": 8, "high": 8, "direction": "min"}]}', "low < high"),
    ],
)
def test_a_folder_without_a_valid_sweep_file_is_refused(tmp_path: Path, text: str | None, named: str) -> None:
    if text is not None:
        (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(AnalysisError, match=named):
        SweepFile.read(tmp_path)


def test_a_cost_is_0_at_the_best_and_1_at_the_worst_bound() -> None:
    entry: dict[str, object] = {"name": "loss", "direction": "min", "low": 0.0, "high": 8.0}
    small, large = Objective.from_dict(entry), Objective.from_dict(entry | {"direction": "max"})
    assert small.cost([-3.0, 0.0, 2.0, 8.0, 500.0, math.inf]).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0, 1.0]
    assert large.cost([0.0, 2.0, 8.0]).tolist() == [1.0, 0.75, 0.0]
    assert (small.worst, large.worst, small.column, small.label) == (8.0, 0.0, "loss", "loss")
    assert large.oriented([0.1, 8.0]).tolist() == [-0.1, -8.0]
    assert Objective.from_dict(entry | {"low": 2.0, "high": 4.0}).cost([2.0, 2.5, 4.0]).tolist() == [0.0, 0.25, 1.0]


COLUMNS = Columns.from_dict(column_dictionary(random_guess=8.0, unit="token"))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("utility", [0.0, 1.0, 1.0 + 1e-9, math.nan], None),
        ("utility", [0.5, 71.3], (71.3, "b", 1, True, (0.0, 1.0))),
        ("utility", [-0.2, 0.7], (-0.2, "a", 1, False, (0.0, 1.0))),
        ("retain_loss", [9.5, math.nan], None),
        ("retain_loss", [9.5, math.inf, math.inf], (math.inf, "b", 1, False, (0.0, None))),
        ("privleak", [-101.0, 0.0], (-101.0, "a", 1, False, (-100.0, None))),
        ("nobody_described_it", [-5.0, 1e9], None),
        ("utility", ["5%"], None),
    ],
)
def test_values_outside_their_bounds_are_named_with_their_row(
    name: str, values: list[object], expected: tuple[object, ...] | None
) -> None:
    statuses = ["finished", "finished", "diverged", "finished"]
    frame = pd.DataFrame({"trial_id": list("abcd"), "status": statuses}).head(len(values)).assign(**{name: values})
    found = [tuple(dict(note.facts).values()) for note in values_outside(frame, COLUMNS)]
    assert found == ([] if expected is None else [(name, *expected)])
