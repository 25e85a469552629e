"""Fresh runs are judged by the criterion of the answer. A run without a model does not meet it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pandas as pd
import pytest

from analysis.frontier.choice import choose_model, models_to_confirm
from analysis.frontier.confirmation import Confirmed, predicted_worst
from analysis.frontier.ranking import Decision
from analysis.report.outcomes import cost, early_stops
from analysis.report.report import write_report
from analysis.tables.sources import read_source
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, Row, trial

GOOD = {"verbmem": 0.05, "utility": 0.79}
BAD = {"verbmem": 0.6, "utility": 0.79}


def fresh(number: int, of: str = "00001", epoch: float = 3.0, /, **fields: object) -> Row:
    """Return the row of a confirm trial of the trial ``of``; by default, a finished trial that forgot enough."""
    row = trial(f"confirm-00{number}", 3.0, 0.1, **{"seed": number + 1, "epochs_done": epoch, **GOOD, **fields})
    return {**row, "phase": "confirm", "confirms": of, "stop_epoch": epoch}


@pytest.fixture
def trials() -> list[Row]:
    return [trial("00000", 1.0, 0.06, **BAD), trial("00001", 4.0, 0.07, **GOOD)]


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({}, 1),
        (BAD, 0),
        ({"status": "diverged", "error": "the retain loss is NaN"}, 0),
        ({"status": "failed", "verbmem": None, "utility": None}, 0),
    ],
)
def test_a_fresh_run_meets_the_criterion_or_not(
    make_sweep: MakeSweep, trials: list[Row], changes: Mapping[str, object], met: int
) -> None:
    out = make_sweep([*trials, fresh(0, **changes), fresh(1)])
    source = read_source(out)
    holds = met == 1  # equal scores in all runs are expected again
    assert models_to_confirm(source.table, source.sweep) == [Confirmed("00001", 3.0, 2, 1 + met, holds)]
    answer = write_report(out)["answer"]
    stated = {
        True: "; its configuration meets the criterion in 2 of 2 fresh runs",
        False: ", although its configuration meets the criterion in only 1 of 2 fresh runs.",
    }
    assert stated[holds] in answer["headline"]
    assert answer["confirmed"] == {"runs": 2, "met": 1 + met, "expected": holds}


def test_a_merged_model_is_a_candidate_but_has_no_configuration_to_confirm(
    make_sweep: MakeSweep, trials: list[Row]
) -> None:
    merged = trial("merged-000", 6.0, 0.05, **{**GOOD, "verbmem": 0.01, "utility": 0.82, "method": "mean", "lr": None})
    row = merged | {"phase": "merge", "merges": "00000,00001", "merge_scale": 1.5}
    out = make_sweep([*trials, row])
    source = read_source(out)
    assert models_to_confirm(source.table, source.sweep) == [Confirmed("00001", 3.0)]
    content = write_report(out)
    assert content["answer"]["trial_id"] == "merged-000"
    (member,) = (item for item in content["front"] if item["trial_id"] == "merged-000")
    assert (member["merges"], member["merge_scale"]) == (["00000", "00001"], 1.5)
    assert len(source.table.searched) == len(trials), "it is no trial of the search"
    page = (out / "report.html").read_text()
    assert "mean x 1.5 of 00000, 00001" in page
    assert "2 trials: 2 finished, 0 stopped early, 0 diverged, 0 failed; and 1 merged model<" in page
    assert cost(source.table).groups["status"][0].trials == 2


def test_a_merged_model_has_no_planned_epochs_that_stops_could_save(make_sweep: MakeSweep) -> None:
    stopped = trial("00000", 1.0, 0.1, status="stopped", epochs=10, epochs_done=4.0)
    merged = trial("merged-000", 2.0, 0.1, method="mean", epochs=10) | {"phase": "merge", "merges": "00000,00001"}
    found = early_stops(read_source(make_sweep([stopped, merged])).table)
    assert found is not None
    assert (found.trials, found.planned_epochs, found.saved_epochs) == (1, 10, 6)


def test_fresh_runs_of_another_model_or_epoch_are_listed_but_do_not_confirm_the_answer(
    make_sweep: MakeSweep, trials: list[Row]
) -> None:
    out = make_sweep([*trials, fresh(0, "00000", **BAD), fresh(1, "00001", 2.0)])
    content = write_report(out)
    assert content["answer"]["confirmed"] is None
    assert content["fresh_runs"] == [
        {"trial_id": "00000", "epoch": 3.0, "runs": 1, "met": 0, "expected": False},
        {"trial_id": "00001", "epoch": 2.0, "runs": 1, "met": 1, "expected": False},
    ]


def test_a_report_with_fresh_runs_has_the_frontier_and_the_figures_of_the_search(
    make_sweep: MakeSweep, trials: list[Row]
) -> None:
    """The fresh run would dominate all trials."""
    before = write_report(make_sweep(trials))
    after = write_report(out := make_sweep([*trials, fresh(0, retain_loss=0.01, forget_loss_capped=7.9)], name="after"))
    for name in ("front", "hypervolume", "reference"):
        assert json.dumps(after[name]) == json.dumps(before[name])
    page = (out / "report.html").read_text()
    assert page.count("confirm-000") == 1, "only the table of fresh runs has the trial"
    assert "Fresh runs" in page
    assert "Fresh runs" not in (out.with_name("out") / "report.html").read_text()


def test_the_table_of_another_sweep_has_no_fresh_runs(make_sweep: MakeSweep, trials: list[Row]) -> None:
    out = make_sweep([*trials, fresh(0)])
    table = read_source(out / "trials.csv").table
    assert list(table.trials["seed"]) == [0, 0]


def test_only_the_given_model_is_confirmed(make_sweep: MakeSweep, trials: list[Row]) -> None:
    source = read_source(make_sweep(trials))
    assert models_to_confirm(source.table, source.sweep, model=("00000", None)) == [Confirmed("00000", 3.0)]
    assert models_to_confirm(source.table, source.sweep, model=("00000", 7.0)) == []


# The answer changes if a runner-up holds where the answer does not ----------------------------------------------------

RUNNERS_UP = [
    trial("00002", 4.0, 0.07, lr=2e-4, verbmem=0.05, utility=0.70),
    trial("00003", 4.0, 0.07, lr=3e-4, verbmem=0.05, utility=0.65),
]


@pytest.mark.parametrize(
    ("results", "chosen", "decision"),
    [
        ({}, "00001", Decision.ONLY),
        ({"00001": (GOOD, GOOD)}, "00001", Decision.ONLY),
        ({"00001": (GOOD, BAD), "00002": (GOOD, GOOD)}, "00002", Decision.CONFIRMED),
        ({"00001": (GOOD, BAD), "00002": (BAD, BAD), "00003": (GOOD, GOOD)}, "00003", Decision.CONFIRMED),
        ({"00001": (GOOD, BAD), "00002": (BAD, BAD), "00003": (BAD, GOOD)}, "00001", Decision.ONLY),
    ],
)
def test_the_first_model_that_holds_is_the_answer(
    make_sweep: MakeSweep,
    trials: list[Row],
    results: Mapping[str, tuple[Mapping[str, object], ...]],
    chosen: str,
    decision: Decision,
) -> None:
    runs = [(trial_id, scores) for trial_id, pair in results.items() for scores in pair]
    rows = [fresh(number, trial_id, **scores) for number, (trial_id, scores) in enumerate(runs)]
    fourth = trial("00099", 4.0, 0.07, lr=4e-4, verbmem=0.05, utility=0.60)
    source = read_source(make_sweep([*trials, *RUNNERS_UP, fourth, *rows]))
    order = models_to_confirm(source.table, source.sweep)
    assert [model.trial_id for model in order] == ["00001", "00002", "00003"], "the order does not depend on fresh runs"
    choice = choose_model(source.table, source.sweep)
    assert choice.row is not None
    assert (choice.row["trial_id"], choice.decision) == (chosen, decision)
    counts = None if not results else (2, sum(scores == GOOD for scores in results[chosen]))
    assert (choice.confirmed and (choice.confirmed.runs, choice.confirmed.met)) == counts


def test_trials_that_differ_only_in_the_seed_are_one_configuration(make_sweep: MakeSweep, trials: list[Row]) -> None:
    repeated = trial("00002", 4.0, 0.07, seed=1, **GOOD)
    source = read_source(make_sweep([*trials, repeated, RUNNERS_UP[1]]))
    assert [model.trial_id for model in models_to_confirm(source.table, source.sweep)] == ["00001", "00003"]


def test_a_further_run_is_expected_to_be_within_the_prediction_bound_of_a_normal_distribution() -> None:
    """Student's quantile 0.9 with two degrees of freedom is 1.8856; mean 2, standard deviation 1, three runs."""
    runs = pd.DataFrame({"verbmem": [1.0, 2.0, 3.0], "utility": [1.0, 2.0, 3.0], "other": [1.0, math.nan, 2.0]})
    limits = [Constraint("verbmem", "<", 9.0), Constraint("utility", ">=", 0.0), Constraint("other", "<", 9.0)]
    margin = 1.8856180831641267 * math.sqrt(1.0 + 1.0 / 3.0)
    worst = predicted_worst(runs, limits)
    assert worst == pytest.approx({"verbmem": 2.0 + margin, "utility": 2.0 - margin, "other": math.nan}, nan_ok=True)
    assert math.isnan(predicted_worst(runs.iloc[:1], limits)["verbmem"])
