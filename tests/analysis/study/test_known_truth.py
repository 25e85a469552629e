"""Verdicts on tables whose correct verdict is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from analysis.report.study_text import study_lines, study_problems
from analysis.study.verdict import Outcome, Runs
from tests.analysis.conftest import Row
from tests.analysis.study.conftest import (
    COLLAPSED,
    DIVERGED,
    FAILED,
    PEAK,
    RISING,
    RULE,
    MakeStudy,
    auto,
    hand,
    only,
    run,
)

BETTER, AS_GOOD, WORSE, UNDECIDED, OPEN = Outcome


@pytest.mark.parametrize(
    ("difference", "spread", "outcome"),
    [(0.06, 0.03, BETTER), (-0.06, 0.02, WORSE), (0.0, 0.08, UNDECIDED), (0.0, 0.01, AS_GOOD), (-0.01, 0.005, AS_GOOD)],
)
def test_the_sign_and_the_size_of_a_difference(
    study: MakeStudy, difference: float, spread: float, outcome: Outcome
) -> None:
    verdict = only(study(hand(spread=spread) + auto(difference, spread=spread)))
    assert verdict.outcome is outcome
    assert verdict.quality.difference == pytest.approx(difference, abs=spread)
    assert verdict.quality.low < verdict.quality.difference < verdict.quality.high
    assert (verdict.quality.seeds, len(verdict.rates), verdict.best_lr) == (20, 3, 1e-4)


def test_a_rule_is_better_only_if_it_is_better_than_every_rate(study: MakeStudy) -> None:
    """The rule is far better than the mean rate, and equal to the best one."""
    verdict = only(study(hand({1e-5: 0.5, 1e-4: 0.70, 1e-3: 0.5}, spread=0.03) + auto(spread=0.03)))
    assert verdict.outcome is not BETTER
    assert verdict.quality.p > 0.05


def test_an_exact_tie_is_as_good(study: MakeStudy) -> None:
    rows = hand()
    equal = [row | RULE | {"trial_id": f"{row['trial_id']}x"} for row in rows if row["lr"] == 1e-4]
    verdict = only(study(rows + equal))
    assert (verdict.outcome, verdict.quality.difference, verdict.quality.p) == (AS_GOOD, 0.0, 1.0)


def test_a_higher_hypervolume_does_not_make_up_for_a_lower_utility(study: MakeStudy) -> None:
    """The hypervolume of the losses is higher with AutoLR, whose utility is 0.57 instead of 0.79."""
    utilities = {1e-5: 0.7, 1e-4: 0.79, 1e-3: 0.7}
    found = study(hand(utilities, forget_loss_capped=6.0) + auto(0.57 - 0.70, forget_loss_capped=7.5))
    verdict = only(found)
    assert found.sensitivity[0].auto["gen/same"][0].hypervolume > found.sensitivity[0].rates[1].hypervolume
    assert (verdict.outcome, verdict.quality.measure) == (WORSE, "utility")
    assert verdict.quality.difference == pytest.approx(-0.22, abs=0.01)


def test_a_grid_from_a_rate_that_does_nothing_to_a_rate_that_destroys_the_model(study: MakeStudy) -> None:
    """At 1e-8, the model keeps its utility and forgets nothing. At 0.1, it collapses."""
    ends = {1e-8: {"utility": 0.8, "verbmem": 0.9}, 1e-5: {}, 0.1: COLLAPSED}
    rows = [row | ends[float(str(row["lr"]))] for row in hand(dict.fromkeys(ends, 0.65))]
    verdict = only(study(rows + auto()))
    assert [rate.lr for rate in verdict.rates] == [1e-8, 1e-5, 0.1]
    assert [rate.quality for rate in verdict.rates] == pytest.approx([0.0, 0.65, 0.0], abs=0.01)
    assert [rate.success for rate in verdict.rates] == [0.0, 1.0, 0.0]
    assert (verdict.best_lr, verdict.edge, verdict.outcome) == (1e-5, None, BETTER)


@pytest.mark.parametrize("fields", [COLLAPSED, DIVERGED])
def test_if_every_run_collapsed_nothing_is_concluded(study: MakeStudy, fields: Row) -> None:
    verdict = only(study(hand(of=lambda seed: fields) + auto(of=lambda seed: fields)))
    assert verdict.outcome is OPEN
    assert verdict.edge is not None
    assert verdict.edge.nothing
    assert (verdict.collapse.auto.runs, verdict.collapse.hand.runs, verdict.quality.seeds) == (20, 20, 0)
    assert math.isnan(verdict.quality.difference)


def test_a_rare_collapse_forbids_better_although_the_others_are_better(study: MakeStudy) -> None:
    """The means are equal: +0.026 on 19 of 20 seeds, and -0.5 on one seed."""
    lost = {3: {"utility": 0.2}}
    verdict = only(study(hand() + auto(0.026, of=lambda seed: lost.get(seed, {}))))
    assert verdict.outcome is UNDECIDED
    assert (verdict.collapse.auto.runs, verdict.collapse.hand.runs) == (1, 0)
    assert (verdict.quality.seeds, verdict.quality.difference) == (19, pytest.approx(0.026, abs=0.01))


def test_rare_collapses_of_both_sides_do_not_hide_a_difference(study: MakeStudy) -> None:
    verdict = only(study(hand(of=lambda seed: DIVERGED if seed == 5 else {}) +
                         auto(0.06, of=lambda seed: DIVERGED if seed == 6 else {})))  # fmt: skip
    assert (verdict.outcome, verdict.quality.seeds) == (BETTER, 18)


def test_a_rule_that_collapses_often_is_worse(study: MakeStudy) -> None:
    verdict = only(study(hand() + auto(0.06, of=lambda seed: COLLAPSED if seed % 2 else {})))
    assert (verdict.outcome, verdict.collapse.auto.runs) == (WORSE, 10)
    assert verdict.success is not None
    assert (verdict.success.auto.share, verdict.success.hand.share) == (0.5, 1.0)


def test_a_rule_that_forgets_too_little_does_not_succeed(study: MakeStudy) -> None:
    """The model keeps 0.1 more utility, but verbmem is 0.35 and not below 0.1."""
    verdict = only(study(hand() + auto(0.1, verbmem=0.35)))
    assert verdict.success is not None
    assert (verdict.success.auto.count, verdict.outcome) == (0, WORSE)
    assert verdict.quality.difference == pytest.approx(0.1 - 0.25, abs=0.01)


@pytest.mark.parametrize("difference", [0.0, 0.3])
def test_thirty_copies_of_a_seed_are_one_seed(study: MakeStudy, difference: float) -> None:
    once = hand(seeds=[0]) + auto(difference, seeds=[0])
    rows = [row | {"seed": seed, "trial_id": f"{row['trial_id']}-{seed}"} for seed in range(30) for row in once]
    verdict = only(study(rows))
    assert (verdict.outcome, verdict.seeds, verdict.copies) == (UNDECIDED, (0,), tuple(range(1, 30)))


def test_seeds_on_which_one_side_was_copied_are_not_counted(study: MakeStudy) -> None:
    first = hand(seeds=[0])
    copied = [row | {"seed": 1, "trial_id": f"{row['trial_id']}x"} for row in first]
    verdict = only(study(first + copied + hand(seeds=range(2, 20)) + auto()))
    assert (verdict.copies, len(verdict.seeds)) == ((1,), 19)


def test_twelve_configurations_against_one_are_not_an_advantage(study: MakeStudy) -> None:
    """Under the null, only the configuration that both sides have is compared, so its best of 12 does not count."""
    values = [index / 20 for index in range(1, 13)]
    many = [row for c in values for row in auto(spread=0.1, method="gdiff", c=c)]
    found = study(hand(spread=0.1, method="gdiff", c=values[0]) + many)
    assert [item.method for item in found.verdicts] == ["gdiff c=0.05"]
    assert only(found).outcome is UNDECIDED
    assert {item.why.code for item in found.no_verdicts} == {"no_fixed_rate"}


def test_several_starts_are_one_unit_and_are_averaged(study: MakeStudy) -> None:
    """From the second start, the utility is 0.2 lower."""
    rows = auto(0.1) + auto(-0.1, starts=[1e-3])
    verdict = only(study(hand() + rows))
    assert verdict.starts == (1e-4, 1e-3)
    assert (verdict.quality.seeds, verdict.collapse.auto.of) == (20, 40)
    assert verdict.quality.difference == pytest.approx(0.0, abs=0.01)
    assert verdict.cost.auto.runs == 1


def test_starts_that_repeat_the_same_run_count_once(study: MakeStudy) -> None:
    rows = auto(0.06)
    repeated = [row | {"lr": 1e-3, "trial_id": f"{row['trial_id']}x"} for row in rows]
    verdict = only(study(hand() + rows + repeated))
    assert (verdict.repeated_starts, verdict.collapse.auto.of, verdict.outcome) == (20, 20, BETTER)


@pytest.mark.parametrize("scheduled", [0, 3])
@pytest.mark.parametrize("difference", [0.06, 0.0, -0.1])
def test_runs_of_a_rule_that_never_changed_its_rate_show_nothing_about_the_rule(
    study: MakeStudy, scheduled: int, difference: float
) -> None:
    verdict = only(study(hand() + auto(difference, lr_updates=scheduled, lr_updates_accepted=0)))
    assert verdict.updates is not None
    assert (verdict.updates.accepted, verdict.updates.of, verdict.never_changed) == (0, 20 * scheduled, True)
    assert verdict.outcome is UNDECIDED
    assert not only(study(hand() + auto())).never_changed


def test_eight_seeds_that_become_twelve_keep_their_pairs(study: MakeStudy) -> None:
    """The first eight seeds are in both comparisons, and more seeds only make the interval shorter."""
    first, all_seeds = (
        only(study(hand(seeds=range(n), spread=0.02) + auto(0.06, seeds=range(n), spread=0.02))) for n in (8, 12)
    )
    assert (first.seeds, all_seeds.seeds) == (tuple(range(8)), tuple(range(12)))
    assert first.auto == all_seeds.auto[:8]
    assert (first.outcome, all_seeds.outcome) == (BETTER, BETTER)
    assert all_seeds.quality.high - all_seeds.quality.low < first.quality.high - first.quality.low


@pytest.mark.parametrize(
    ("utilities", "difference", "outcome", "beyond"),
    [
        (RISING, 0.06, OPEN, (1e-2,)),
        (RISING, -0.2, WORSE, (1e-2,)),
        ({1e-4: 0.7}, 0.06, OPEN, (3.2e-5, 3.2e-4)),
        ({1e-5: 0.6, 1e-4: 0.7, 1e-3: 0.7}, 0.06, BETTER, ()),
    ],
)
def test_a_best_rate_at_the_edge_leaves_the_question_open(
    study: MakeStudy, utilities: dict[float, float], difference: float, outcome: Outcome, beyond: Sequence[float]
) -> None:
    verdict = only(study(hand(utilities, spread=0.0) + auto(difference)))
    found = verdict.edge.beyond if verdict.edge else ()
    assert (verdict.outcome, tuple(float(f"{rate:.2g}") for rate in found)) == (outcome, tuple(beyond))


@pytest.mark.parametrize(("seeds", "outcome"), [(5, UNDECIDED), (8, BETTER)])
def test_five_seeds_decide_nothing(study: MakeStudy, seeds: int, outcome: Outcome) -> None:
    found = study(hand(seeds=range(seeds)) + auto(0.3, seeds=range(seeds)))
    assert (only(found).outcome, found.undecidable) == (outcome, seeds == 5)


def test_a_seed_on_which_a_run_failed_is_left_out(study: MakeStudy) -> None:
    verdict = only(study(hand() + auto(0.06, of=lambda seed: FAILED if seed == 4 else {})))
    assert (verdict.left_out, verdict.quality.seeds, verdict.collapse.auto.of) == ((4,), 19, 19)


def test_interpolation_for_one_arm_only_is_no_comparison_of_rates(study: MakeStudy) -> None:
    found = study(hand(interpolate="off") + auto(0.1, interpolate="on"))
    assert found.verdicts == ()
    (why,) = [item.why for item in found.no_verdicts if item.variant]
    assert why.code == "arms_differ"
    assert ("differences", (("interpolate", "on", "off"),)) in why.facts


def test_interpolation_for_both_arms_is_a_task_of_its_own(study: MakeStudy) -> None:
    rows = [row for value in ("off", "on") for row in hand(interpolate=value) + auto(0.06, interpolate=value)]
    found = study(rows)
    assert [item.outcome for item in found.verdicts] == [BETTER, BETTER]
    assert [item.method_task.task.apart for item in found.verdicts] == ["interpolate off", "interpolate on"]
    assert {item.comparisons for item in found.verdicts} == {2}


def test_of_many_equal_rules_none_is_better_and_a_primary_comparison_is_tested_first(study: MakeStudy) -> None:
    """With p = 2^-7 on seven seeds, one of eight comparisons is decided only if it is the primary one."""
    names = [f"method{index}" for index in range(8)]
    rows = [
        row for name in names for row in hand(seeds=range(7), method=name) + auto(0.06, seeds=range(7), method=name)
    ]
    found = study(rows)
    assert {item.outcome for item in found.verdicts} == {UNDECIDED}
    assert {item.comparisons for item in found.verdicts} == {8}
    assert found.undecidable
    primary = study(rows, primary="method3")
    assert {item.method for item in primary.verdicts if item.outcome is BETTER} == {"method3"}
    assert [(item.primary, item.comparisons) for item in primary.verdicts if item.method == "method3"] == [(True, 1)]


def test_other_comparisons_are_tested_only_after_the_primary_one_is_decided(study: MakeStudy) -> None:
    rows = hand(spread=0.1, method="gdiff") + auto(spread=0.1, method="gdiff") + hand() + auto(0.1)
    found = study(rows, primary="gdiff")
    assert {item.method: item.outcome for item in found.verdicts} == {"gdiff": UNDECIDED, "ngdiff": UNDECIDED}
    assert {item.outcome for item in study(rows).verdicts} == {UNDECIDED, BETTER}


def test_costs_have_one_clock_and_include_tuning(study: MakeStudy) -> None:
    verdict = only(study(hand(train_seconds=10.0) + auto(train_seconds=10.0, decision_seconds=2.5)))
    assert (verdict.cost.auto.seconds, verdict.cost.auto.runs) == (12.5, 1)
    assert (verdict.cost.hand.seconds, verdict.cost.hand.runs) == (30.0, 3)


def test_a_collapsed_run_is_held_against_the_target_of_its_own_seed(study: MakeStudy) -> None:
    """A utility of 0.3 is above half of seed 1's 0.4, and below half of 0.8."""
    rows = [run(0.3, lr, seed) | fields for seed in range(3) for lr in PEAK for fields in ({}, RULE)]
    baselines = {"1": {"utility": 0.4, "truth_ratio": 0.8}}
    found = study(rows, entries={"baselines": baselines}, seeds_vary="order")
    collapsed = {facts.run.seed: facts.collapsed for facts in found.runs}
    assert collapsed == {0: True, 1: False, 2: True}


@pytest.mark.parametrize("verbmem", [0.98, 0.05])
def test_without_a_value_for_the_threshold_on_forgetting_there_is_no_verdict(study: MakeStudy, verbmem: float) -> None:
    """A rule that forgets nothing keeps all utility, so it would be better than every rate."""
    measured = study(hand() + auto(0.2, verbmem=verbmem))
    assert only(measured).outcome is (WORSE if verbmem > 0.1 else BETTER)
    found = study(hand(verbmem=None) + auto(0.2, verbmem=None))
    assert found.verdicts == ()
    (why,) = [item.why for item in found.no_verdicts]
    assert (why.code, why.facts) == ("forgetting_not_measured", (("thresholds", ("verbmem<0.1",)),))
    assert all(math.isnan(facts.quality) and not facts.is_known for facts in found.runs)
    assert "no run has a value for the threshold verbmem<0.1 on forgetting" in study_lines(found)[0]
    assert "nothing to compare" in study_problems(found)[0]


def test_a_stated_threshold_on_forgetting_replaces_that_of_the_paper(study: MakeStudy) -> None:
    """All models have a forget loss of 6, and none was measured in verbmem."""
    rows = hand(verbmem=None) + auto(0.06, verbmem=None)
    assert only(study(rows, constraints=["forget_loss>=5"])).outcome is BETTER


def test_without_a_threshold_on_forgetting_there_is_no_verdict(study: MakeStudy) -> None:
    """A threshold on the form of the answers to forget questions replaces that of the paper, too."""
    found = study(hand() + auto(0.06), constraints=["forget_repetition<=0.1"])
    assert (found.verdicts, [item.why.code for item in found.no_verdicts]) == ((), ["no_forget_threshold"])


def test_a_run_whose_forgetting_is_unknown_leaves_its_seed_out_unless_it_collapsed(study: MakeStudy) -> None:
    def unknown(seed: int) -> Row:
        return {3: {"verbmem": None}, 4: {"verbmem": None} | COLLAPSED}.get(seed, {})

    verdict = only(study(hand() + auto(0.06, of=unknown)))
    assert (verdict.left_out, verdict.quality.seeds, verdict.collapse.auto) == ((3,), 18, Runs(1, 19))
