"""The rules of a verdict: which runs, seeds and rates are compared, and what is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analysis.report.study_text import study_cautions, study_content, study_lines, write_study
from analysis.report.study_text import verdict_lines as words
from analysis.study.judging import verdicts_data
from analysis.study.lr_study import read_study
from analysis.study.study_runs import study_runs
from analysis.study.verdict import (
    BETTER,
    DESCRIBED,
    TOO_FEW,
    WORSE,
    Verdict,
    seeds_for,
    split_seeds,
)
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeGrid, MakeRow, MakeSweep, Row, trial
from tests.analysis.study.conftest import table
from tests.conftest import GOLDEN

Judged = Callable[..., Verdict]


@pytest.fixture
def judged(grid: MakeGrid) -> Judged:
    """Return the only verdict on the tables."""

    def judge(*tables: list[Row]) -> Verdict:
        (verdict,) = verdicts_data(grid(*tables))
        return verdict

    return judge


def test_eight_seeds_are_the_fewest_that_leave_six_fresh_ones() -> None:
    assert split_seeds(range(8)) == ((0, 1), (2, 3, 4, 5, 6, 7))
    assert split_seeds([5, 1]) == ((1,), (5,))
    assert split_seeds([3]) == ((3,), (3,))
    assert [seeds_for(fresh) for fresh in (6, 7, 8, 9)] == [8, 10, 11, 13]
    assert len(split_seeds(range(7))[1]) < 6


def test_a_lost_seed_drops_out_of_its_own_part_and_the_others_stay_in_theirs(judged: Judged, row: MakeRow) -> None:
    """Seeds 0, 1 and 2 are for tuning. If lost seeds were removed before the split, seed 3 would be, too."""
    rows = []
    for seed in range(9):
        rows += [row(0.1 if seed == 3 else 0.3, 1e-4, seed), row(0.9 if seed == 3 else 0.2, 1e-3, seed)]
        rows += [row(0.5, 1e-4, seed, auto=True, **({"status": "failed"} if seed < 2 else {}))]
    verdict = judged(rows)
    assert (verdict.tuning, verdict.fresh, verdict.left_out) == ((2,), (3, 4, 5, 6, 7, 8), (0, 1))
    assert set(verdict.baselines[0].choice.values()) == {1e-4}


def test_the_rate_is_chosen_on_tuning_seeds_even_if_another_is_best_on_fresh_ones(judged: Judged, row: MakeRow) -> None:
    rows = []
    for seed in range(30):
        rows += [row(0.5 if seed < 10 else 0.1, 1e-4, seed), row(0.4, 1e-3, seed), row(0.4, 1e-4, seed, auto=True)]
        rows += [row(0.05, lr, seed) for lr in (1e-5, 1e-2)]
    single = judged(rows).baselines[0]
    assert (set(single.choice.values()), single.outcome) == ({1e-4}, BETTER)
    assert single.hand == pytest.approx([0.1] * 20)


def test_the_oracle_takes_for_every_c_its_own_rate(judged: Judged) -> None:
    """c = 0.1 forgets best at 1e-3, c = 0.9 at 1e-4; no single rate has both points."""
    places = {(0.1, 1e-3): (8.0, 4.0), (0.9, 1e-3): (0.0, 8.0), (0.1, 1e-4): (0.0, 8.0), (0.9, 1e-4): (4.0, 0.0)}
    nothing = {(c, lr): (0.0, 8.0) for c in (0.1, 0.9) for lr in (1e-5, 1e-2)}
    runs = [(*losses, {"c": c, "lr": lr}) for (c, lr), losses in (places | nothing).items()]
    runs += [(5.0, 3.0 + c / 10, {"c": c, "lr": 1e-4, "auto_lr": "on"}) for c in (0.1, 0.9)]
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


def test_seeds_of_sweeps_come_together_and_holm_corrects_over_data_sets(grid: MakeGrid, row: MakeRow) -> None:
    rows = table(row, 0.3)
    others = [item | {"dataset": "tofu", "trial_id": f"9{item['trial_id']}"} for item in rows]
    early, late = ([item for item in rows if (item["seed"] < 4) is first] for first in (True, False))  # type: ignore[operator]
    verdicts = verdicts_data(grid(early, late, others))
    assert [len(verdict.fresh) for verdict in verdicts] == [20, 20]
    for verdict in verdicts:
        # Two comparisons in two directions are four hypotheses.
        assert verdict.baselines[0].p_holm == pytest.approx(4 * verdict.baselines[0].result.p_above)
        assert verdict.baselines[0].outcome == BETTER


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
    free = judged([item | {"train_seconds": 9.0 if item["auto_lr"] == "on" else 10.0} for item in rows])
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
    assert result.ahead is not None
    assert (result.mean, result.ahead.count, result.tied, verdict.curve.equals) == (0.0, 0, 20, 3.0)


def test_by_objectives_chosen_afterwards_nothing_is_decided(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [item | {"verbmem": 0.05 if item["auto_lr"] == "on" else 0.6, "utility": 0.8} for item in table(row, 0.3)]
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


def test_a_study_of_a_real_run_is_written_as_json_without_infinities(tmp_path: Path) -> None:
    study = read_study([GOLDEN])
    write_study(tmp_path / "lr_study.json", study)
    text = (tmp_path / "lr_study.json").read_text()
    assert ("Infinity" in text, "NaN" in text) == (False, False)
    for item, verdict in zip(json.loads(text)["verdicts"], study.verdicts, strict=True):
        curve = item["curve"]
        assert curve["above_all_rates"] is (curve["equals"] is None) is math.isinf(verdict.curve.equals)
        baseline = item["baselines"][0]
        # There are two comparisons, because the oracle chooses the best single rate for every c.
        facts = [baseline[name] for name in ("comparisons", "fresh_least", "outcome")]
        assert facts == [2, 7, TOO_FEW]
        assert baseline["seeds_needed"] == seeds_for(baseline["fresh_needed"])


@pytest.mark.parametrize(
    ("later", "count", "different"),
    [
        ([{"seed": 1}], 0, ()),
        ([{}], 1, ()),
        ([{"wall_seconds": 7.0, "worker": "other"}], 1, ()),
        ([{}, {"status": "stopped"}, {"utility": 0.1}], 3, ("later1", "later2")),
    ],
)
def test_repeated_trials_are_counted_and_those_that_ended_differently_named(
    make_sweep: MakeSweep, later: list[Row], count: int, different: Sequence[str]
) -> None:
    row = trial("first", 6.0, 0.5, verbmem=0.05, utility=0.7)
    rows = [row, *(row | fields | {"trial_id": f"later{place}"} for place, fields in enumerate(later))]
    notes = study_runs([(TrialTable.read(make_sweep(rows)), ())]).notes
    facts = {"count": count, "different": tuple(("first", name) for name in different)}
    assert [dict(note.facts) for note in notes] == [facts] * (count > 0)
