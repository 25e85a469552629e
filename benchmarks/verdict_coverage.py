"""How often is the test of a verdict wrong, and when does it decide? Simulates differences with a known mean.

    python benchmarks/verdict_coverage.py
    python benchmarks/verdict_coverage.py --draws 10000

Prints Markdown tables. False alarms are the share of simulated tables with mean zero that are called better or worse at
the 5% level. Coverage is the share of 95% intervals that contain the true mean. Of the simulated tables with a true
advantage, power is the share that is called better. The test of a verdict (betting) is compared with the sign-flip test
and the paired-t interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from study_rows import print_table

from analysis.study.paired import ALPHA, holm, p_above, p_below, sign_flip_p, t_interval

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
SEEDS = (6, 8, 12, 20)
MORE_SEEDS = (50, 100)


@dataclass(frozen=True, slots=True)
class Truth:
    """A distribution of differences in [-1, 1] with a known mean."""

    name: str
    mean: float
    draw: Draw


def _collapse(good: float, bad: float, share: float) -> Draw:
    return lambda generator, n: np.where(generator.random(n) < share, bad, good)


def _normal(mean: float, sd: float) -> Draw:
    return lambda generator, n: np.clip(generator.normal(mean, sd, n), mean - 3 * sd, mean + 3 * sd)


NULL = (
    Truth("normal, sd 0.05", 0.0, _normal(0.0, 0.05)),
    Truth("rare ruin: +0.02 in 95%, -0.38 in 5%", 0.0, _collapse(0.02, -0.38, 0.05)),
    Truth("rarer ruin: +0.01 in 99%, -0.99 in 1%", 0.0, _collapse(0.01, -0.99, 0.01)),
    Truth("rare rescue: -0.05 in 90%, +0.45 in 10%", 0.0, _collapse(-0.05, 0.45, 0.10)),
    Truth(
        "skewed: 0.1 minus exponential", 0.0, lambda generator, n: 0.1 - np.minimum(generator.exponential(0.1, n), 1.0)
    ),
    Truth("tied: -0.1, 0, 0, +0.1", 0.0, lambda generator, n: generator.choice([-0.1, 0.0, 0.0, 0.1], n)),
    Truth("all equal", 0.0, lambda generator, n: np.zeros(n)),
    Truth("the extremes: -1 or 1", 0.0, lambda generator, n: generator.choice([-1.0, 1.0], n)),
)
BETTER = (
    Truth("+0.05, sd 0.05", 0.05, _normal(0.05, 0.05)),
    Truth("+0.1, sd 0.05", 0.1, _normal(0.1, 0.05)),
    Truth("+0.2, sd 0.1", 0.2, _normal(0.2, 0.1)),
    Truth("+0.5, sd 0.15", 0.5, _normal(0.5, 0.15)),
)


def betting(values: Floats) -> float:
    """Return the two-sided p-value of the verdict's test for one comparison."""
    return min(1.0, 2 * min(p_above(values), p_below(values)))


def null_row(truth: Truth, n: int, draws: int, seed: int = 0) -> tuple[float, ...]:
    """Return the false-alarm rates of betting and sign flips, and the coverage of betting and paired-t intervals."""
    generator = np.random.default_rng(seed)
    tables = [truth.draw(generator, n) for _ in range(draws)]
    alarms = [np.mean([test(values) < ALPHA for values in tables]) for test in (betting, sign_flip_p)]
    # The interval contains the true mean if the test of this mean does not reject.
    tails = [min(p_above(values, truth.mean), p_below(values, truth.mean)) for values in tables]
    intervals = [t_interval(values) for values in tables]
    coverage = np.mean([tail >= ALPHA / 2 for tail in tails]), np.mean([a <= truth.mean <= b for a, b in intervals])
    return tuple(float(share) for share in (*alarms, *coverage))


def power_row(truth: Truth, n: int, draws: int, seed: int = 0) -> float:
    """Return the share of simulated tables in which betting decides for the better side."""
    generator = np.random.default_rng(seed)
    return float(np.mean([p_above(truth.draw(generator, n)) < ALPHA / 2 for _ in range(draws)]))


def family_row(arms: int, truth: Truth, n: int, draws: int, seed: int = 0) -> tuple[float, float, float]:
    """Return the shares of reports with a decision if none of the ``arms`` has a true difference (false alarms).

    The three shares are for betting with Holm's correction, for sign flips, and for sign flips with Holm's correction.
    """
    generator = np.random.default_rng(seed)
    tested, flipped = [], []
    for _ in range(draws):
        tables = [truth.draw(generator, n) for _ in range(arms)]
        p_values = holm([p for values in tables for p in (p_above(values), p_below(values))])
        tested.append(min(p_values) < ALPHA)
        flips = [sign_flip_p(values) for values in tables]
        flipped.append((min(flips) < ALPHA, min(holm(flips)) < ALPHA))
    alone, corrected = np.mean(flipped, axis=0)
    return float(np.mean(tested)), float(alone), float(corrected)


def show(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table with shares in percent."""
    print_table(head, ([f"{cell:.1%}" if isinstance(cell, float) else cell for cell in row] for row in rows))
    print()


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--draws", type=int, default=1000, help="tables per row")
    draws = parser.parse_args().draws
    rows = [(truth.name, n, *null_row(truth, n, draws)) for truth in NULL for n in (6, 12)]
    head = ("differences of mean zero", "fresh seeds", "false alarms, verdict", "sign-flip", "coverage, verdict")
    show((*head, "paired-t"), rows)
    powers = [(truth.name, n, power_row(truth, n, draws)) for truth in BETTER for n in (*SEEDS, *MORE_SEEDS)]
    show(("truth", "fresh seeds", "verdict says better"), powers)
    few = max(1, draws // 5)
    families = [
        (truth.name, arms, *family_row(arms, truth, 6, few)) for truth in (NULL[0], NULL[1]) for arms in (1, 8, 32)
    ]
    head = ("null arms, 6 fresh seeds", "arms", "a decision, verdict", "sign-flip", "sign-flip, Holm")
    show(head, families)


if __name__ == "__main__":
    main()
