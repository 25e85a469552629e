"""The table of trials, as read from a sweep's folder."""

from __future__ import annotations

import math

import pytest

from analysis.errors import AnalysisError
from analysis.tables.note import note
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, trial


def test_ids_stay_text_numbers_become_numbers_and_a_missing_metric_is_nan(make_sweep: MakeSweep) -> None:
    first = trial("00007", 5.0, 0.1, method="gdiff", c=0.25, target_key="000123")
    failed = trial("00010", None, None, status="failed", checkpoint="", error="out of memory")
    row, lost = (item for _, item in TrialTable.read(make_sweep([first, failed])).trials.iterrows())
    assert (row["trial_id"], row["spec_hash"], row["target_key"]) == ("00007", "000007e5", "000123")
    assert (row["c"], row["lr"], row["seed"]) == (0.25, 1e-4, 0)
    assert math.isnan(lost["forget_loss"])
    assert (lost["checkpoint"], lost["error"]) == ("", "out of memory")


def test_a_folder_without_tables_is_an_empty_table(make_sweep: MakeSweep) -> None:
    out = make_sweep(None)
    table = TrialTable.read(out)
    assert (len(table.trials), len(table.finished), table.history_of("00000").empty, table.running) == (0, 0, True, ())
    (out / "pareto.json").write_text('{"front": [1]}')
    with pytest.raises(AnalysisError, match=r"trials\.csv is missing"):
        TrialTable.read(out)


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
        ({"seed": None}, "seed is ''.*whole number"),
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
