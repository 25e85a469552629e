"""The rules of a verdict: which runs, seeds and rates are compared, and what is written."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from analysis.report.study_text import study_cautions, study_content, study_lines
from analysis.report.study_text import verdict_lines as words
from analysis.study.judging import verdicts_data
from analysis.study.lr_study import read_study
from analysis.study.study_runs import study_runs
from analysis.study.verdict import BETTER, DESCRIBED, WORSE, Verdict, seeds_for, split_seeds
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeGrid, MakeRow, MakeSweep, Row, trial
from tests.analysis.study.conftest import table

Judged = Callable[..., Verdict]


@pytest.fixture
def judged(grid: MakeGrid) -> Judged:
    def judge(rows: list[Row]) -> Verdict:
        (verdict,) = verdicts_data(grid(rows))
        assert isinstance(verdict, Verdict)
        return verdict

    return judge


def test_eight_seeds_are_the_fewest_that_leave_six_fresh_ones() -> None:
    assert split_seeds(range(8)) == ((0, 1), (2, 3, 4, 5, 6, 7))
    assert split_seeds([5, 1]) == ((1,), (5,))
    assert split_seeds([3]) == ((3,), (3,))
    assert [seeds_for(fresh) for fresh in (6, 7, 8, 9)] == [8, 10, 11, 13]
    assert len(split_seeds(range(7))[1]) < 6


def test_the_oracle_takes_for_every_c_its_own_rate(judged: Judged) -> None:
    """c = 0.1 forgets best at 1e-3, c = 0.9 at 1e-4; no single rate has both points."""
    places = {(0.1, 1e-3): (8.0, 4.0), (0.9, 1e-3): (0.0, 8.0), (0.1, 1e-4): (0.0, 8.0), (0.9, 1e-4): (4.0, 0.0)}
    nothing = {(c, lr): (0.0, 8.0) for c in (0.1, 0.9) for lr in (1e-5, 1e-2)}
    runs = [(*losses, {"c": c, "lr": lr}) for (c, lr), losses in (places | nothing).items()]
    runs += [(5.0, 3.0 + c / 10, {"c": c, "lr": 1e-4, "auto_lr": "gen-clip"}) for c in (0.1, 0.9)]
    rows = [
        trial(f"{seed:02d}{place:03d}", forget, retain, method="gdiff", seed=seed, **fields)
        for seed in range(30)
        for place, (forget, retain, fields) in enumerate(runs)
    ]
    verdict = judged(rows)
    single, oracle = verdict.baselines
    assert oracle.choice == {(0.1,): 1e-3, (0.9,): 1e-4}
    assert oracle.hand == pytest.approx([0.75] * 20)
    assert single.hand == pytest.approx([0.5] * 20)
    assert (len(verdict.rates), oracle.outcome) == (4, WORSE)


def test_autolr_is_the_mean_over_its_starts_and_pays_its_measured_time(judged: Judged, row: MakeRow) -> None:
    rows = []
    for seed in range(2):
        rows += [row(0.2, 1e-4, seed, train_seconds=10.0), row(0.4, 1e-3, seed, train_seconds=10.0)]
        rows += [row(volume, lr, seed, auto=True, train_seconds=12.0) for lr, volume in ((1e-4, 0.1), (1e-3, 0.3))]
    verdict = judged(rows)
    assert verdict.baselines[0].auto == pytest.approx((0.2,))
    assert verdict.curve.charge == pytest.approx(1.2)
    unmeasured = judged([item | {"train_seconds": None} for item in rows])
    assert unmeasured.curve.charge == 1.033
    free = judged([item | {"train_seconds": 9.0 if item["auto_lr"] != "off" else 10.0} for item in rows])
    assert free.curve.charge == 1.033, "probes are never free"


def test_exact_ties_are_ahead_on_no_seed(judged: Judged, row: MakeRow) -> None:
    """The mean over three equal initial rates may differ from each of them in the last bits."""
    rows = []
    for seed in range(30):
        best = 0.45 + 0.0213 * math.sin(seed)
        rows += [row(volume, lr, seed) for lr, volume in ((1e-5, 0.1), (1e-4, best), (1e-3, 0.3))]
        rows += [row(best, lr, seed, auto=True) for lr in (1e-5, 1e-4, 1e-3)]
    verdict = judged(rows)
    result = verdict.baselines[0].result
    assert (result.mean, result.ahead.count, result.tied, verdict.curve.equals) == (0.0, 0, 20, 3.0)


def test_by_objectives_chosen_afterwards_nothing_is_decided(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [item | {"verbmem": 0.05 if item["auto_lr"] != "off" else 0.6, "utility": 0.8} for item in table(row, 0.3)]
    out = make_sweep(rows)
    columns = SweepFile.read(out).columns
    objectives = [item for name in ("verbmem", "utility") if (item := columns.objective(name))]
    study = read_study([out], objectives)
    (verdict,) = study.verdicts
    assert {(item.outcome, item.p_holm, item.bounds) for item in verdict.baselines} == {(DESCRIBED, None, None)}
    assert study.afterwards is not None
    assert ("judged", "verbmem (min), utility (max)") in study.afterwards.facts
    assert study_cautions(study)[0].startswith("The objectives of this comparison are verbmem (min)")
    assert "'p_above': None" in str(study_content(study)["verdicts"])
    text = " ".join([*study_lines(study), *words(verdict)])
    assert not [claim for claim in ("is better", "is worse", "p = ", "interval of") if claim in text]
    assert read_study([out]).verdicts[0].baselines[0].outcome == BETTER


@pytest.mark.parametrize(
    ("later", "count", "different"),
    [
        ([{"seed": 1}], 0, 0),
        ([{"wall_seconds": 7.0, "worker": "other"}], 1, 0),
        ([{}, {"status": "stopped"}, {"utility": 0.1}], 3, 2),
    ],
)
def test_repeated_trials_and_those_that_ended_differently_are_counted(
    make_sweep: MakeSweep, later: list[Row], count: int, different: int
) -> None:
    row = trial("first", 6.0, 0.5, verbmem=0.05, utility=0.7)
    rows = [row, *(row | fields | {"trial_id": f"later{place}"} for place, fields in enumerate(later))]
    notes = study_runs([(TrialTable.read(make_sweep(rows)), ())]).notes
    facts = {"count": count, "different": different}
    assert [dict(note.facts) for note in notes] == [facts] * (count > 0)
