"""AutoLR's verdicts on tables whose truth is known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.study.judging import verdicts_data
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import read_study, write_study
from analysis.study.sensitivity import rate_sensitivity
from analysis.study.study_headline import study_cautions, study_headline
from analysis.study.verdict import BETTER, DESCRIBED, ORACLE, SINGLE, TOO_FEW, UNDECIDED, WORSE, seeds_for, split_seeds
from analysis.study.verdict_words import curve_in_words, interval_in_words, words
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeGrid, MakeRow, MakeSweep, Row, trial
from tests.conftest import GOLDEN


def simulated(row: MakeRow, *, seeds: int, advantage: float, noise: float = 0.005) -> Iterator[Row]:
    """Rates with volumes 0.1, 0.4, 0.3 and AutoLR ``advantage`` above the best; a seed moves all alike."""
    generator = np.random.default_rng(3)
    for seed in range(seeds):
        shift = generator.normal(0, 0.02)
        for lr, volume in ((1e-5, 0.1), (1e-4, 0.4), (1e-3, 0.3)):
            yield row(volume + shift + generator.normal(0, noise), lr, seed)
        yield row(0.4 + advantage + shift + generator.normal(0, noise), 1e-4, seed, auto=True)


@pytest.mark.parametrize(("advantage", "outcome"), [(0.3, BETTER), (-0.3, WORSE), (0.0, UNDECIDED)])
def test_the_verdict_follows_the_truth_also_against_autolr(
    grid: MakeGrid, row: MakeRow, advantage: float, outcome: str
) -> None:
    (verdict,) = verdicts_data(grid(list(simulated(row, seeds=24, advantage=advantage))))
    assert (verdict.tuning, verdict.fresh) == (tuple(range(8)), tuple(range(8, 24)))
    single, oracle = verdict.opponents
    assert (single.name, oracle.name) == (SINGLE, ORACLE)
    assert not any("oracle" in line for line in words(verdict)), "there is one c: the oracle is the best single lr"
    assert set(single.choice.values()) == {1e-4}
    assert single.outcome == oracle.outcome == outcome
    assert single.result.mean == pytest.approx(advantage, abs=0.01)
    said = " ".join(words(verdict))
    assert {BETTER: "is better than", WORSE: "is worse than", UNDECIDED: "is not shown to differ"}[outcome] in said
    assert "chosen on seeds 0 to 7, reported on fresh seeds 8 to 23" in said


def test_with_fewer_than_six_fresh_seeds_it_says_that_nothing_can_be_concluded(grid: MakeGrid, row: MakeRow) -> None:
    (verdict,) = verdicts_data(grid(list(simulated(row, seeds=6, advantage=0.3))))
    assert len(verdict.fresh) == 4
    assert {opponent.outcome for opponent in verdict.opponents} == {TOO_FEW}
    first = words(verdict)[0]
    assert "nothing can be concluded" in first
    assert "a two-sided test at 5% needs 6 fresh ones at least (--seeds 8); a difference of +0.2998" in first
    assert "on every seed takes 16 fresh ones to tell (--seeds 23)" in first
    assert "So far: hypervolume, AutoLR minus hand-tuned, +0." in first
    assert "is better" not in " ".join(words(verdict))


def test_eight_seeds_are_the_fewest_that_leave_six_fresh_ones() -> None:
    assert split_seeds(range(8)) == ((0, 1), (2, 3, 4, 5, 6, 7))
    assert split_seeds([5, 1]) == ((1,), (5,))
    assert split_seeds([3]) == ((3,), (3,))
    assert [seeds_for(fresh) for fresh in (6, 7, 8, 9)] == [8, 10, 11, 13]
    assert len(split_seeds(range(7))[1]) < 6


def test_a_lost_seed_drops_out_of_its_own_part_and_the_others_stay_in_theirs(grid: MakeGrid, row: MakeRow) -> None:
    """Of nine seeds 0, 1, 2 tune. Split after the loss of 0 and 1, seed 3 would tune too, and choose another rate."""
    rows = []
    for seed in range(9):
        rows += [row(0.1 if seed == 3 else 0.3, 1e-4, seed), row(0.9 if seed == 3 else 0.2, 1e-3, seed)]
        rows += [row(0.5, 1e-4, seed, auto=True, **({"status": "failed"} if seed < 2 else {}))]
    (verdict,) = verdicts_data(grid(rows))
    assert (verdict.tuning, verdict.fresh, verdict.left_out) == ((2,), (3, 4, 5, 6, 7, 8), (0, 1))
    assert set(verdict.opponents[0].choice.values()) == {1e-4}


def test_where_all_tuning_seeds_are_lost_nothing_is_concluded(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=9, advantage=0.3))
    for item in rows:
        if item["seed"] in (0, 1, 2) and item["auto_lr"] == "on":
            item |= {"status": "failed", "forget_loss_capped": None}
    (verdict,) = verdicts_data(grid(rows))
    assert verdict.same_seeds
    assert len(verdict.fresh) == 6
    assert {opponent.outcome for opponent in verdict.opponents} == {TOO_FEW}
    assert "from 6 seeds: the rates were chosen on the seeds they are reported on" in words(verdict)[0]


def test_autolr_above_every_rate_is_said_to_be_above_and_below_every_rate_not(grid: MakeGrid, row: MakeRow) -> None:
    (above,) = verdicts_data(grid(list(simulated(row, seeds=3, advantage=0.3))))
    said = curve_in_words(above.curve, above.opponents[0])
    assert "is above the best of all 3 learning rates tried, which is a description" in said
    (proven,) = verdicts_data(grid(list(simulated(row, seeds=30, advantage=0.3))))
    said = curve_in_words(proven.curve, proven.opponents[0])
    assert said.endswith("is above the best of all 3 learning rates tried: no number of picks equals it")
    (below,) = verdicts_data(grid(list(simulated(row, seeds=3, advantage=-0.39))))
    assert "does no better than one learning rate picked at random" in curve_in_words(below.curve, below.opponents[0])
    (alone,) = verdicts_data(grid([row(0.2, 1e-4, 0), row(0.3, 1e-4, 0, auto=True)]))
    assert "is above the only learning rate tried" in curve_in_words(alone.curve, alone.opponents[0])


def test_one_seed_serves_for_both_and_the_words_say_whom_that_flatters(grid: MakeGrid, row: MakeRow) -> None:
    (verdict,) = verdicts_data(grid(list(simulated(row, seeds=1, advantage=0.3))))
    assert verdict.same_seeds
    assert verdict.opponents[0].outcome == TOO_FEW
    assert "flatters hand-tuning" in words(verdict)[-1]
    assert "from 1 seed: a two-sided test at 5% needs 6 fresh ones at least (--seeds 8)" in words(verdict)[0]


def test_the_rate_is_chosen_on_tuning_seeds_even_where_another_is_best_on_fresh_ones(
    grid: MakeGrid, row: MakeRow
) -> None:
    rows = []
    for seed in range(30):
        lucky = seed < 10
        rows += [row(0.5 if lucky else 0.1, 1e-4, seed), row(0.4, 1e-3, seed), row(0.4, 1e-4, seed, auto=True)]
        rows += [row(0.05, lr, seed) for lr in (1e-5, 1e-2)]
    (verdict,) = verdicts_data(grid(rows))
    assert set(verdict.opponents[0].choice.values()) == {1e-4}
    assert verdict.opponents[0].hand == pytest.approx([0.1] * 20)
    assert verdict.opponents[0].outcome == BETTER


def test_the_oracle_takes_for_every_c_its_own_rate(grid: MakeGrid) -> None:
    """c = 0.1 forgets best at 1e-3, c = 0.9 at 1e-4; no single rate has both points."""
    places = {(0.1, 1e-3): (8.0, 4.0), (0.9, 1e-3): (0.0, 8.0), (0.1, 1e-4): (0.0, 8.0), (0.9, 1e-4): (4.0, 0.0)}
    rows = []
    nothing = {(c, lr): (0.0, 8.0) for c in (0.1, 0.9) for lr in (1e-5, 1e-2)}
    for seed in range(30):
        for (c, lr), (forget, retain) in (places | nothing).items():
            shared = {"method": "gdiff", "c": c, "seed": seed}
            rows.append(trial(f"{len(rows):05d}", forget, retain, lr=lr, **shared))
        for c in (0.1, 0.9):
            rows.append(
                trial(f"{len(rows):05d}", 5.0, 3.0 + c / 10, lr=1e-4, auto_lr="on", method="gdiff", c=c, seed=seed)
            )
    (verdict,) = verdicts_data(grid(rows))
    single, oracle = verdict.opponents
    assert oracle.choice == {(0.1,): 1e-3, (0.9,): 1e-4}
    assert oracle.hand == pytest.approx([0.75] * 20)
    assert single.hand == pytest.approx([0.5] * 20)
    assert oracle.runs == 4
    assert oracle.outcome == WORSE
    assert "is worse than the per-c oracle" in words(verdict)[1]


def test_a_diverged_trial_counts_with_zero_and_a_failed_one_takes_its_seed_out(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=9, advantage=0.1))
    for item in rows:
        if item["auto_lr"] == "on" and item["seed"] == 5:
            item |= {"status": "diverged", "forget_loss_capped": None, "retain_loss": None}
        if item["lr"] == 1e-3 and item["seed"] == 8:
            item |= {"status": "failed", "forget_loss_capped": None, "retain_loss": None}
    found = grid(rows)
    (verdict,) = verdicts_data(found)
    assert verdict.left_out == (8,)
    assert verdict.opponents[0].auto[verdict.fresh.index(5)] == 0.0
    assert "1 front of 36 lacks a trial and does not count" in found.notes
    assert "left out, as not every run of both sides ended there: seed 8" in words(verdict)[-1]


def test_a_trial_that_was_run_twice_counts_once(grid: MakeGrid, row: MakeRow) -> None:
    first = [row(0.25, 1e-4, 0), row(0.16, 1e-4, 0, auto=True)]
    twice = grid(first, [row(0.81, 1e-4, 0)])
    (units,) = twice.arm(twice.cases[0]).values()
    assert units[0].hypervolume == pytest.approx(0.25)
    assert any("repeated" in note for note in twice.notes)


def test_seeds_of_several_sweeps_come_together_and_holm_corrects_over_data_sets(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=30, advantage=0.3))
    others = [item | {"dataset": "tofu", "trial_id": f"9{item['trial_id']}"} for item in rows]
    early, late = ([item for item in rows if (item["seed"] < 4) is first] for first in (True, False))  # type: ignore[operator]
    verdicts = verdicts_data(grid(early, late, others))
    assert [len(verdict.fresh) for verdict in verdicts] == [20, 20]
    for verdict in verdicts:
        # Two comparisons of two directions: four hypotheses.
        assert verdict.opponents[0].p_holm == pytest.approx(4 * verdict.opponents[0].result.p_above)
        assert verdict.opponents[0].outcome == BETTER


def test_where_holm_puts_significance_out_of_reach_it_names_the_seeds_that_would_do(
    grid: MakeGrid, row: MakeRow
) -> None:
    """With six fresh seeds two comparisons could not be decided if every difference were 1."""
    rows = list(simulated(row, seeds=8, advantage=0.3))
    verdicts = verdicts_data(grid(rows, [item | {"dataset": "tofu"} for item in rows]))
    assert [opponent.outcome for verdict in verdicts for opponent in verdict.opponents] == [TOO_FEW] * 4
    for verdict in verdicts:
        assert (verdict.opponents[0].p_holm, verdict.opponents[0].fresh_least) == (None, 7)
        assert (
            "corrected for the 2 comparisons of this report, needs 7 fresh ones in each at least (--seeds 10)"
            in (words(verdict)[0])
        )


def test_a_data_set_with_too_few_seeds_takes_nothing_from_another_with_enough(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=30, advantage=0.3))
    few = [item | {"dataset": "tofu"} for item in rows if item["seed"] in (0, 1, 2)]
    one, other = verdicts_data(grid(rows, few))
    assert (one.opponents[0].outcome, one.opponents[0].comparisons) == (BETTER, 1)
    assert other.opponents[0].outcome == TOO_FEW


def test_autolr_is_the_mean_over_its_starts_and_pays_its_measured_time(grid: MakeGrid, row: MakeRow) -> None:
    rows = []
    for seed in range(2):
        rows += [row(0.2, 1e-4, seed, train_seconds=10.0), row(0.4, 1e-3, seed, train_seconds=10.0)]
        rows += [row(volume, lr, seed, auto=True, train_seconds=12.0) for lr, volume in ((1e-4, 0.1), (1e-3, 0.3))]
    (verdict,) = verdicts_data(grid(rows))
    assert verdict.opponents[0].auto == pytest.approx((0.2,))
    assert (verdict.charge, verdict.charge_measured) == (pytest.approx(1.2), True)
    (unmeasured,) = verdicts_data(grid([item | {"train_seconds": None} for item in rows]))
    assert (unmeasured.charge, unmeasured.charge_measured) == (1.033, False)
    noisy = [item | {"train_seconds": 9.0 if item["auto_lr"] == "on" else 10.0} for item in rows]
    (free,) = verdicts_data(grid(noisy))
    assert (free.charge, free.charge_measured) == (1.033, False), "probes are never free"


def test_exact_ties_are_ahead_on_no_seed(grid: MakeGrid, row: MakeRow) -> None:
    """The mean over three equal starts may differ from each in the last bits."""
    rows = []
    for seed in range(30):
        best = 0.45 + 0.0213 * math.sin(seed)
        rows += [row(volume, lr, seed) for lr, volume in ((1e-5, 0.1), (1e-4, best), (1e-3, 0.3))]
        rows += [row(best, lr, seed, auto=True) for lr in (1e-5, 1e-4, 1e-3)]
    (verdict,) = verdicts_data(grid(rows))
    result = verdict.opponents[0].result
    assert result.ahead is not None
    assert (result.mean, result.ahead.count, result.tied) == (0.0, 0, 20)
    assert "ahead on 0 of 20, equal on 20; 95% interval" in words(verdict)[0]
    assert verdict.curve.equals == 3.0


def test_the_interval_is_told_by_its_ends(grid: MakeGrid, row: MakeRow) -> None:
    (verdict,) = verdicts_data(grid(list(simulated(row, seeds=3, advantage=0.3))))
    told = {
        ends: interval_in_words(replace(verdict.opponents[0], bounds=ends)) for ends in ((-0.1124, -0.0), (-1.0, 1.0))
    }
    assert told[-0.1124, -0.0] == "95% interval of the difference -0.112 to 0"
    assert told[-1.0, 1.0] == "95% interval of the difference -1 to +1, which excludes nothing"


def test_seeds_of_one_side_alone_do_not_move_the_split(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=30, advantage=0.3))
    (before,) = verdicts_data(grid(rows))
    extra = [row(0.4, 1e-4, seed, auto=True) for seed in range(100, 140)]
    more = [row(0.4, 1e-4, seed) for seed in range(200, 240)]
    (after,) = verdicts_data(grid([*rows, *extra, *more]))
    assert (after.tuning, after.fresh) == (before.tuning, before.fresh)
    assert after.opponents[0].outcome == before.opponents[0].outcome == BETTER
    assert after.left_out == (*range(100, 140), *range(200, 240))


def test_rates_that_agree_in_nine_digits_are_one(grid: MakeGrid, row: MakeRow) -> None:
    rows = list(simulated(row, seeds=30, advantage=0.3))
    assert 3 * 1e-4 != 3e-4
    moved = [item | {"lr": {1e-3: 3e-4}.get(float(str(item["lr"])), item["lr"])} for item in rows]
    noisy = [item | {"lr": 3 * 1e-4} if item["lr"] == 3e-4 and int(str(item["seed"])) >= 15 else item for item in moved]
    (verdict,) = verdicts_data(grid(noisy))
    assert verdict.rates == (1e-5, 1e-4, 3e-4)
    assert (verdict.opponents[0].outcome, verdict.left_out) == (BETTER, ())


def test_above_what_tuning_all_rates_gives_is_not_equal_to_the_best_of_some(grid: MakeGrid, row: MakeRow) -> None:
    """The tuning seeds prefer a rate that is the third best on fresh ones: more picks are worse there."""
    rows = []
    for seed in range(30):
        for lr, tuned, fresh in ((3e-4, 0.3, 0.3), (1e-3, 0.6, 0.2), (3e-3, 0.42, 0.42), (1e-2, 0.05, 0.05)):
            rows.append(row(tuned if seed < 10 else fresh, lr, seed))
        rows.append(row(0.25, 1e-3, seed, auto=True))
    (verdict,) = verdicts_data(grid(rows))
    assert max(verdict.curve.expected) > 0.25 > verdict.curve.expected[-1]
    said = curve_in_words(verdict.curve, verdict.opponents[0])
    assert "is above the best of all 4 learning rates tried (not above the best of fewer: " in said
    assert "equals the best of" not in said


def test_by_objectives_chosen_afterwards_nothing_is_decided(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [
        item | {"verbmem": 0.05 if item["auto_lr"] == "on" else 0.6, "utility": 0.8}
        for item in simulated(row, seeds=30, advantage=0.3)
    ]
    out = make_sweep(rows)
    objectives = [item for name in ("verbmem", "utility") if (item := SweepFile.read(out).columns.objective(name))]
    study = read_study([out], objectives)
    (verdict,) = study.verdicts
    assert {(item.outcome, item.p_holm, item.bounds) for item in verdict.opponents} == {(DESCRIBED, None, None)}
    said = " ".join([study_headline(study), *study_cautions(study), *words(verdict)])
    assert "it tests nothing" in said
    assert "AutoLR: nothing is tested by objectives that were chosen afterwards for gdiff" in said
    assert not [claim for claim in ("is better", "is worse", "p = ", "interval of the difference") if claim in said]
    assert read_study([out]).verdicts[0].opponents[0].outcome == BETTER


def test_a_single_trial_and_an_empty_table_have_no_verdict(grid: MakeGrid, row: MakeRow) -> None:
    single = grid([row(0.25, 1e-4, 0)])
    assert verdicts_data(single) == ()
    (found,) = rate_sensitivity(single)
    assert found.near_best == (1e-4, 1e-4)
    empty = grid([])
    assert (verdicts_data(empty), rate_sensitivity(empty)) == ((), ())


def test_sweeps_with_other_objectives_are_not_put_together(make_sweep: MakeSweep) -> None:
    one = make_sweep([], name="one")
    sweep = SweepFile.read(one)
    with pytest.raises(AnalysisError, match="different objectives"):
        lr_grid([(TrialTable.read(one, sweep="a"), sweep.objectives), (TrialTable.read(one, sweep="b"), ())])


def test_a_study_of_a_real_run_is_written_as_json_without_infinities(tmp_path: Path) -> None:
    study = read_study([GOLDEN])
    assert [item.case.method for item in study.sensitivity] == ["gdiff", "ngdiff"]
    assert [len(item.rates) for item in study.sensitivity] == [3, 3]
    assert {verdict.variant for verdict in study.verdicts} == {"clip/fresh"}
    write_study(tmp_path / "lr_study.json", study)
    text = (tmp_path / "lr_study.json").read_text()
    assert "Infinity" not in text
    assert "NaN" not in text
    for item, verdict in zip(json.loads(text)["verdicts"], study.verdicts, strict=True):
        curve = item["tuning_curve"]
        assert curve["above_all_rates"] is (curve["equals_best_of"] is None) is math.isinf(verdict.curve.equals)
        opponent = item["opponents"][0]
        # Two methods, each against the best single rate, which the oracle takes for every c.
        assert (opponent["comparisons"], opponent["fresh_seeds_least"], opponent["outcome"]) == (2, 7, TOO_FEW)
        assert opponent["seeds_needed"] == seeds_for(opponent["fresh_seeds_needed"])
