"""The table of trials, as read from a sweep's folder."""

from __future__ import annotations

import math

import pytest

from analysis.errors import AnalysisError
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, trial


def test_ids_and_hashes_stay_text_and_numbers_become_numbers(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("00007", 5.0, 0.1, method="gdiff", c=0.25, target_key="000123"), trial("00010", 6.0, 0.2)])
    row = TrialTable.read(out).trials.iloc[0]
    assert (row["trial_id"], row["spec_hash"], row["target_key"]) == ("00007", "000007e5", "000123")
    assert (row["c"], row["lr"], row["seed"]) == (0.25, 1e-4, 0)


def test_a_missing_metric_is_missing_and_not_a_score(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", None, None, status="failed", checkpoint="", error="out of memory")])
    row = TrialTable.read(out).trials.iloc[0]
    assert math.isnan(row["forget_loss"])
    assert math.isnan(row["retain_loss"])
    assert (row["checkpoint"], row["error"]) == ("", "out of memory")


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


def test_a_torn_last_row_is_left_out_and_said(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("1", 2.0, 1.0)])
    path = out / "trials.csv"
    path.write_text(path.read_text().rstrip("\n"))
    table = TrialTable.read(out)
    assert list(table.trials["trial_id"]) == ["0"]
    assert table.notes == ("the last line of trials.csv is incomplete and was left out",)


def test_of_two_rows_of_one_trial_the_first_counts(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep([trial("0", 1.0, 1.0), trial("1", 2.0, 1.0), trial("0", 9.0, 9.0)]))
    assert list(table.trials["trial_id"]) == ["0", "1"]
    assert table.trials["retain_loss"].tolist() == [1.0, 1.0]
    assert "more than one row for trial 0" in table.notes[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retain_loss": "big"}, r"line 3: retain_loss is 'big', expected a number or nothing"),
        ({"lr": "1e-4x"}, r"line 3: lr is '1e-4x'"),
        ({"status": "done"}, r"line 3: status is 'done', expected one of finished, stopped, diverged, failed"),
        ({"status": None}, r"line 3: status is ''"),
        ({"trial_id": ""}, r"line 3: trial_id is empty"),
        ({"seed": None}, r"line 3: seed is '', expected a whole number"),
        ({"seed": 0.5}, r"line 3: seed is '0.5', expected a whole number"),
        ({"seed": "one"}, r"line 3: seed is 'one', expected a number"),
    ],
)
def test_a_bad_cell_is_named_with_its_place(make_sweep: MakeSweep, fields: dict[str, object], message: str) -> None:
    out = make_sweep([trial("0", 1.0, 1.0), trial("1", 1.0, 1.0, **fields)])
    with pytest.raises(AnalysisError, match=message) as caught:
        TrialTable.read(out)
    assert "trials.csv" in str(caught.value)


def test_the_history_of_a_trial_is_in_the_order_of_its_steps(make_sweep: MakeSweep) -> None:
    reports = [report("1", 20, 2.0, 0.2), report("0", 10, 9.0, 0.9), report("1", 10, 1.0, 0.1)]
    table = TrialTable.read(make_sweep([trial("1", 2.0, 0.2)], reports))
    history = table.history_of("1")
    assert history["step"].tolist() == [10, 20]
    assert history["forget_loss"].tolist() == [1.0, 2.0]
    assert table.running == ("0",)


def test_a_step_reported_again_by_a_restarted_worker_counts_once(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep([], [report("0", 10, 1.0, 0.1), report("0", 10, 1.5, 0.2)]))
    assert table.history_of("0")["forget_loss"].tolist() == [1.5]


def test_a_torn_history_loses_only_its_last_line(make_sweep: MakeSweep) -> None:
    out = make_sweep([], [report("0", 10, 1.0, 0.1)])
    with (out / "history.csv").open("a") as file:
        file.write("0,20,2.0,0.0001,0.5,1.")
    assert TrialTable.read(out).history_of("0")["step"].tolist() == [10]


def test_merged_sweeps_keep_trials_with_equal_ids_apart(make_sweep: MakeSweep) -> None:
    first = make_sweep([trial("0", 1.0, 0.1)], [report("0", 10, 1.0, 0.1)], name="first")
    second = make_sweep([trial("0", 2.0, 0.2)], [report("0", 10, 2.0, 0.2)], name="second")
    merged = TrialTable.merge([TrialTable.read(first, sweep="a"), TrialTable.read(second, sweep="b")])
    assert merged.trials[["sweep", "trial_id", "forget_loss"]].to_numpy().tolist() == [["a", "0", 1.0], ["b", "0", 2.0]]
    assert merged.history[["sweep", "forget_loss"]].to_numpy().tolist() == [["a", 1.0], ["b", 2.0]]


def test_two_sweeps_of_one_name_do_not_merge(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep([trial("0", 1.0, 0.1)]), sweep="a")
    with pytest.raises(AnalysisError, match="two sweeps are called 'a'"):
        TrialTable.merge([table, table])
