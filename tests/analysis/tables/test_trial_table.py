"""The table of trials, as read from a sweep's folder."""

from __future__ import annotations

import math

import pytest

from analysis.errors import AnalysisError
from analysis.tables.note import note
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, trial


def test_ids_stay_text_numbers_become_numbers_and_a_missing_metric_is_no_score(make_sweep: MakeSweep) -> None:
    first = trial("00007", 5.0, 0.1, method="gdiff", c=0.25, target_key="000123")
    failed = trial("00010", None, None, status="failed", checkpoint="", error="out of memory")
    row, lost = (item for _, item in TrialTable.read(make_sweep([first, failed])).trials.iterrows())
    assert (row["trial_id"], row["spec_hash"], row["target_key"]) == ("00007", "000007e5", "000123")
    assert (row["c"], row["lr"], row["seed"]) == (0.25, 1e-4, 0)
    assert math.isnan(lost["forget_loss"])
    assert math.isnan(lost["retain_loss"])
    assert (lost["checkpoint"], lost["error"]) == ("", "out of memory")


def test_finished_rows_are_those_that_ran_to_their_end(make_sweep: MakeSweep) -> None:
    statuses = ["finished", "stopped", "diverged", "failed", "finished"]
    table = TrialTable.read(make_sweep([trial(str(i), 1.0, 1.0, status=status) for i, status in enumerate(statuses)]))
    assert list(table.finished["trial_id"]) == ["0", "4"]
    assert list(table.with_status("diverged")["trial_id"]) == ["2"]
    assert len(table.trials) == 5


def test_spec_columns_are_what_a_trial_was_asked_to_do(make_sweep: MakeSweep) -> None:
    columns = TrialTable.read(make_sweep([trial("0", 1.0, 1.0)])).spec_columns
    assert {"model", "dataset", "method", "c", "lr", "auto_lr", "seed", "epochs"} <= set(columns)
    assert not {"trial_id", "spec_hash", "status", "steps", "forget_loss", "checkpoint", "error"} & set(columns)


def test_a_folder_without_tables_is_an_empty_table(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep(None))
    assert len(table.trials) == 0
    assert len(table.finished) == 0
    assert table.history_of("00000").empty
    assert table.running == ()


def test_a_torn_last_row_and_a_second_row_of_a_trial_are_left_out_and_noted(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("0", 9.0, 9.0), trial("1", 2.0, 1.0)])
    path = out / "trials.csv"
    path.write_text(path.read_text().rstrip("\n"))
    table = TrialTable.read(out)
    assert list(table.trials["trial_id"]) == ["0"]
    assert table.trials["retain_loss"].tolist() == [1.0]
    assert table.notes == (
        note("incomplete_line", file="trials.csv"),
        note("repeated_rows", file="trials.csv", trials=("0",)),
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"retain_loss": "big"}, "retain_loss is 'big'.*number"),
        ({"lr": "1e-4x"}, "lr is '1e-4x'"),
        ({"status": "done"}, "status is 'done'.*finished, stopped, diverged, failed"),
        ({"status": None}, "status is ''"),
        ({"trial_id": ""}, "trial_id.*empty"),
        ({"seed": None}, "seed is ''.*whole number"),
        ({"seed": 0.5}, "seed is '0.5'.*whole number"),
        ({"seed": "one"}, "seed is 'one'.*number"),
    ],
)
def test_a_bad_cell_is_named_with_its_place(make_sweep: MakeSweep, fields: dict[str, object], named: str) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("1", 1.0, 1.0, **fields)])
    with pytest.raises(AnalysisError, match=rf"trials\.csv, line 3.*{named}"):
        TrialTable.read(out)


def test_the_history_of_a_trial_is_in_the_order_of_its_steps(make_sweep: MakeSweep) -> None:
    """A step reported again by a restarted worker counts once, and an incomplete last line does not count."""
    reports = [report("1", step, loss, 0.2) for step, loss in ((20, 9.0), (20, 2.0), (10, 1.0))]
    out = make_sweep([trial("1", 2.0, 0.2)], [report("0", 10, 9.0, 0.9), *reports])
    with (out / "history.csv").open("a") as file:
        file.write("1,30,2.0,0.0001,0.5,1.")
    table = TrialTable.read(out)
    history = table.history_of("1")
    assert history["step"].tolist() == [10, 20]
    assert history["forget_loss"].tolist() == [1.0, 2.0]
    assert table.running == ("0",)


def test_merged_sweeps_need_names_of_their_own(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep([trial("0", 1.0, 0.1)], [report("0", 10, 1.0, 0.1)]), sweep="a")
    with pytest.raises(AnalysisError, match="'a'"):
        TrialTable.merge([table, table])
