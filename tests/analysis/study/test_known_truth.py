"""Verdicts on tables whose correct verdict is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from analysis.study.lr_study import read_study
from analysis.study.verdict import AT_EDGE, BETTER, TOO_FEW, UNDECIDED, WORSE, Verdict
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import DIVERGED, FAILED, PEAK, RISING, STOPPED, Difference, table

Sweeps = Callable[[MakeRow], Sequence[list[Row]]]
ROUNDED = {lr * (1 + 1e-12): volume for lr, volume in PEAK.items()}
VOLUME_OF_0_6 = {"forget_loss_capped": 6.2, "retain_loss": 1.8}
SPLITS = ["forget split forget10", "forget split forget05"]


def side(auto: bool, *seeds: int) -> Callable[[Row], bool]:
    """Return a filter for the rows with or without AutoLR, on the given seeds or on all seeds."""
    return lambda item: (item["auto_lr"] != "off") is auto and (not seeds or item["seed"] in seeds)


def rare(good: float, collapse: float, every: int) -> Difference:
    """Return differences of ``collapse`` on every ``every``-th seed, and of ``good`` on the others."""
    return lambda seed: collapse if seed % every == every - 1 else good


@dataclass(frozen=True)
class Case:
    """The tables of one or more sweeps, and the expected outcomes against the best single rate.

    ``facts`` are expected :func:`facts` of the first verdict, and ``apart`` the settings that distinguish the tasks.
    """

    name: str
    sweeps: Sweeps
    outcomes: Sequence[str]
    facts: Mapping[str, object] = field(default_factory=dict)
    apart: Sequence[str] = ()


def one(*difference: float | Difference, **fields: object) -> Sweeps:
    return lambda row: [table(row, *difference, **fields)]  # type: ignore[arg-type]


def changed(which: Callable[[Row], bool], fields: Row, *difference: float, **options: object) -> Sweeps:
    """Return a table in which some rows have other fields."""
    return lambda row: [
        [item | fields if which(item) else item for item in table(row, *difference, **options)]  # type: ignore[arg-type]
    ]


def two(**fields: object) -> Sweeps:
    """Return two sweeps with opposite differences; the second also has other ``fields``."""
    return lambda row: [table(row, 0.3, forget_split="forget10"), table(row, -0.3, **fields)]


CASES = (
    # Effects.
    Case("null", one(), [UNDECIDED], {"ahead": 0, "tied": 20, "needed": None}),
    Case("better", one(0.3), [BETTER], {"rate": 1e-4, "ahead": 20, "fresh": 20, "equals": np.inf}),
    Case("worse", one(-0.4), [WORSE], {"rate": 1e-4, "ahead": 0, "equals": 1.0}),
    # A rare collapse: the mean difference is at most 0, even if a few seeds show an advantage.
    Case("collapse not seen in hundred", one(0.02, seeds=range(150)), [UNDECIDED], {"collapsed": 0, "fresh": 100}),
    Case("collapse once in twenty", one(rare(0.02, -0.38, 20)), [UNDECIDED], {"collapsed": 1, "ahead": 19}),
    Case(
        "collapse on every other seed",
        one(rare(0.0, -0.42, 2), seeds=range(60)),
        [WORSE],
        {"collapsed": 20, "fresh": 40},
    ),
    Case("divergence is collapse", changed(side(True, 29), DIVERGED, 0.02), [UNDECIDED], {"collapsed": 1, "ahead": 19}),
    # The edge of the grid.
    Case("best at the highest rate", one(0.3, rates=RISING), [AT_EDGE], {"beyond": (1e-2,)}),
    Case("worse than an edge", one(-0.3, rates=RISING), [WORSE], {"rate": 1e-3, "beyond": (1e-2,)}),
    Case("one rate", one(0.3, rates={1e-4: 0.4}), [AT_EDGE], {"beyond": (3.2e-5, 3.2e-4)}),
    Case("a plateau up to the edge", one(0.3, rates={1e-5: 0.1, 1e-4: 0.4, 1e-3: 0.4}), [BETTER], {"beyond": ()}),
    Case("nothing attained", changed(side(False), DIVERGED), [AT_EDGE], {"beyond": (1e-6, 1e-2), "hand_collapsed": 20}),
    Case(
        "beyond the peak all diverges",
        changed(lambda item: item["lr"] == 1e-2, DIVERGED, 0.3, rates=RISING | {1e-2: 0.9}),
        [BETTER],
        {"rate": 1e-3, "beyond": ()},
    ),
    Case(
        "an edge that only fresh seeds show",
        changed(lambda item: item["lr"] == 1e-3 and item["seed"] not in range(10), VOLUME_OF_0_6, 0.3),
        [AT_EDGE],
        {"rate": 1e-4, "beyond": (1e-2,)},
    ),
    Case(
        "an edge that a second sweep extends",
        lambda row: [table(row, 0.3, rates=RISING), table(row, rates={1e-2: 0.2}, sides=[False])],
        [BETTER],
        {"rate": 1e-3, "beyond": ()},
    ),
    # Different tasks.
    Case("other split, other target", two(forget_split="forget05", target_key="99ff"), [BETTER, WORSE], apart=SPLITS),
    Case(
        "other epochs and split",
        two(epochs=9, forget_split="forget05"),
        [BETTER, WORSE],
        apart=[f"{SPLITS[0]}, epochs 3", f"{SPLITS[1]}, epochs 9"],
    ),
    Case(
        "the sides on different tasks",
        lambda row: [table(row, sides=[False]), table(row, 0.3, sides=[True], epochs=9)],
        [],
        apart=["epochs"],
    ),
    Case(
        "two data sets with six fresh seeds each",
        lambda row: [table(row, 0.3, seeds=range(8)), table(row, 0.3, seeds=range(8), dataset="tofu")],
        [TOO_FEW, TOO_FEW],
        {"fresh": 6, "least": 7, "comparisons": 2},
    ),
    Case(
        "a data set with too few seeds costs another one nothing",
        lambda row: [table(row, 0.3) + table(row, 0.3, seeds=range(3), dataset="tofu")],
        [BETTER, TOO_FEW],
        {"comparisons": 1},
    ),
    Case("another c is no other task", lambda row: [table(row, 0.3) + table(row, 0.3, c=0.9)], [BETTER]),
    Case(
        "AutoLR's settings are no other task",
        lambda row: [table(row, 0.35), table(row, 0.35, sides=[True], auto_lr="gen")],
        [BETTER, BETTER],
        {"comparisons": 2},
    ),
    # Seeds.
    Case("a stopped run", changed(side(True, 29), STOPPED, 0.3), [BETTER], {"left_out": (29,), "collapsed": 0}),
    Case("a lost seed", changed(side(True, 29), FAILED, 0.3), [BETTER], {"left_out": (29,), "fresh": 19}),
    Case(
        "all tuning seeds lost",
        changed(side(True, *range(10)), FAILED, 0.3),
        [TOO_FEW],
        {"same_seeds": True, "left_out": tuple(range(10))},
    ),
    Case("one seed", one(0.3, seeds=range(1)), [TOO_FEW], {"same_seeds": True, "bounds": None, "least": 6}),
    Case("ties and gains", one(rare(0.0, 0.5, 2), seeds=range(60)), [BETTER], {"ahead": 20, "tied": 20, "fresh": 40}),
    Case(
        "seeds of one side alone do not move the split",
        lambda row: [table(row, 0.3) + table(row, seeds=range(99, 101), sides=[True])],
        [BETTER],
        {"fresh": 20, "left_out": (99, 100)},
    ),
    Case(
        "rates that agree in nine digits are one",
        lambda row: [table(row, 0.3, seeds=range(15)) + table(row, 0.3, seeds=range(15, 30), rates=ROUNDED)],
        [BETTER],
        {"left_out": ()},
    ),
    # Many questions.
    Case(
        "much better among 16",
        lambda row: [[item for i in range(16) for item in table(row, 0.0 if i else 0.5, method=f"method{i}")]],
        [BETTER] + [UNDECIDED] * 15,
        {"comparisons": 16},
    ),
)


def facts(verdict: Verdict) -> dict[str, object]:
    """Return the facts of a verdict that a case may name; ``beyond`` has the rates to try next, to two digits."""
    single = verdict.baselines[0]
    return {
        "fresh": len(verdict.fresh),
        "left_out": verdict.left_out,
        "same_seeds": verdict.same_seeds,
        "rate": next(iter(single.choice.values())),
        "ahead": single.result.ahead.count,
        "tied": single.result.tied,
        "needed": single.fresh_needed,
        "least": single.fresh_least,
        "comparisons": single.comparisons,
        "collapsed": verdict.collapse.seeds.count,
        "hand_collapsed": single.collapse.seeds.count,
        "bounds": single.bounds,
        "equals": verdict.curve.equals,
        "beyond": tuple(float(f"{rate:.2g}") for rate in single.edge.beyond) if single.edge else (),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_verdict_is_the_one_the_table_was_made_for(make_sweep: MakeSweep, row: MakeRow, case: Case) -> None:
    study = read_study([make_sweep(rows, name=f"sweep-{index}") for index, rows in enumerate(case.sweeps(row))])
    outcomes = [verdict.baselines[0].outcome for verdict in study.verdicts]
    assert outcomes == list(case.outcomes)
    assert ("several_tasks" in [note.code for note in study.notes]) is bool(case.apart)
    for verdict, apart in zip(study.verdicts, case.apart or itertools.repeat(""), strict=False):
        assert verdict.method_task.task.apart == apart
        single = verdict.baselines[0]
        if single.comparisons == 1 and single.p_holm is not None:  # Holm: twice the smaller of two p-values
            smaller = min(single.result.p_above, single.result.p_below)
            assert single.p_holm == pytest.approx(min(1.0, 2 * smaller), rel=1e-12)
        if single.bounds is not None:
            low, high = single.bounds
            assert low <= single.result.mean <= high
            assert {BETTER: low >= 0, WORSE: high <= 0}.get(
                single.outcome, low <= 0 <= high or single.outcome == AT_EDGE
            )
    if study.verdicts:
        assert case.facts.items() <= facts(study.verdicts[0]).items()
