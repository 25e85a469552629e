"""How often does a study's verdict detect a true difference, and how often is it wrong? Simulates studies.

    python benchmarks/study_power.py
    python benchmarks/study_power.py --draws 2000

Each simulated study has five fixed rates and one automatic rate on each seed. The quality of the best fixed rate is
0.7, and a second rate is as good; the others are lower by 0.05, 0.1 and 0.2. The difference between the automatic rate
and each fixed rate has a standard deviation of 0.04 between seeds. A collapsed run loses 0.5.

Prints a Markdown table with the share of studies that are called better, as good and worse by the verdict's test (every
rate, both endpoints), and the share called better by a betting test (Waudby-Smith & Ramdas 2024), for which the best
rate is chosen on the first third of the seeds, and the mean difference is tested on the other seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from study_rows import print_table

from analysis.study.endpoints import RunFacts
from analysis.study.judging import verdicts_data
from analysis.study.study_runs import MethodTask, StudyRun
from analysis.study.units import Arms
from analysis.study.verdict import Outcome, Verdict
from analysis.tables.columns import Columns
from analysis.tables.tasks import Task

Floats = npt.NDArray[np.float64]
RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
LOWER = np.array([0.2, 0.05, 0.0, 0.0, 0.1])
"""By how much the quality of each fixed rate is below that of the best one."""
SPREAD = 0.04
COLLAPSE = -0.5
LEVEL = 0.025
_BETS, _CAPITAL = np.array([1.0, 0.5, 0.2]), np.array([0.7, 0.2, 0.1])


@dataclass(frozen=True, slots=True)
class Truth:
    """A true difference to the best fixed rate (where neither side collapsed), and the shares of collapsed runs."""

    name: str
    difference: float
    auto_collapses: float = 0.0
    hand_collapses: float = 0.0


TRUTHS = (
    Truth("equal", 0.0),
    Truth("+0.06", 0.06),
    Truth("+0.03", 0.03),
    Truth("-0.06", -0.06),
    Truth("equal, 5% of all runs collapse", 0.0, 0.05, 0.05),
    Truth("+0.026, 5% of the automatic runs lose 0.5, so the means are equal", 0.026, 0.05),
    Truth("equal, 30% of the automatic runs collapse", 0.0, 0.3),
)


def draw(truth: Truth, seeds: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the quality of the automatic rate, shape (seeds,), and of the fixed rates, shape (seeds, 5).

    NaN is a collapsed run.
    """
    shared = generator.normal(0.0, 0.02, seeds)
    auto = 0.7 + truth.difference + shared + generator.normal(0.0, SPREAD / np.sqrt(2), seeds)
    hand = 0.7 - LOWER + shared[:, None] + generator.normal(0.0, SPREAD / np.sqrt(2), (seeds, len(RATES)))
    auto[generator.random(seeds) < truth.auto_collapses] = np.nan
    hand[generator.random(hand.shape) < truth.hand_collapses] = np.nan
    return auto, hand


def verdict(auto: Floats, hand: Floats) -> Outcome:
    """Return the outcome of the verdict's test."""
    task = MethodTask(Task("model", "data"), "method")
    row = pd.Series({"auto_lr": "gen", "status": "finished"})

    def facts(lr: float, seed: int, variant: str, quality: float) -> RunFacts:
        run = StudyRun(task, variant, lr, (), seed, {"": np.zeros(2)}, row)
        collapsed = bool(np.isnan(quality))
        return RunFacts(run, not collapsed, collapsed, quality, (lr, seed, variant), 1.0, None, None)

    seeds = range(len(auto))
    by_rate = {lr: {s: facts(lr, s, "", hand[s, i]) for s in seeds} for i, lr in enumerate(RATES)}
    arms = Arms(task, "method", by_rate, {"gen": {1e-4: {s: facts(1e-4, s, "gen", auto[s]) for s in seeds}}})
    (found,) = verdicts_data([arms], "utility", columns=Columns())
    assert isinstance(found, Verdict)
    return found.outcome


def betting(auto: Floats, hand: Floats) -> bool:
    """Return whether the betting test calls the automatic rate better."""
    scores = [np.where(np.isnan(values), 0.7 + COLLAPSE, values) for values in (auto, hand)]
    cut = max(1, len(auto) // 3)
    best = int(np.argmax(scores[1][:cut].mean(axis=0)))
    differences = np.clip(scores[0][cut:] - scores[1][cut:, best], -1.0, 1.0)
    wealth = _CAPITAL @ np.prod(1 + _BETS[:, None] * differences[None, :], axis=1)
    return bool(1 / wealth < LEVEL)


def simulate(truth: Truth, seeds: int, draws: int) -> Sequence[float]:
    """Return the shares of studies called better, as good and worse, and called better by the betting test."""
    generator = np.random.default_rng(0)
    tables = [draw(truth, seeds, generator) for _ in range(draws)]
    outcomes = [verdict(*table) for table in tables]
    shares = [outcomes.count(name) / draws for name in (Outcome.BETTER, Outcome.AS_GOOD, Outcome.WORSE)]
    return *shares, float(np.mean([betting(*table) for table in tables]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--draws", type=int, default=100, help="simulated studies per row")
    draws = parser.parse_args().draws
    rows = [
        (truth.name, seeds, *(f"{share:.2f}" for share in simulate(truth, seeds, draws)))
        for truth in TRUTHS
        for seeds in (8, 20)
    ]
    print_table(("truth", "seeds", "better", "as good", "worse", "betting: better"), rows)


if __name__ == "__main__":
    main()
