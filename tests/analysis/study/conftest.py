"""Tables of learning-rate studies whose correct verdict is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from analysis.study.lr_study import LrStudy, read_study
from analysis.study.verdict import Verdict
from tests.analysis.conftest import BASELINE, MakeSweep, Row, trial

PEAK, RISING = {1e-5: 0.60, 1e-4: 0.70, 1e-3: 0.65}, {1e-5: 0.60, 1e-4: 0.65, 1e-3: 0.70}
"""Utilities by rate: the best rate is inside the grid, or at its upper edge."""
FAILED: Row = {"status": "failed", "forget_loss_capped": None, "retain_loss": None, "utility": None}
DIVERGED: Row = FAILED | {"status": "diverged"}
COLLAPSED: Row = {"utility": 0.1}
"""The utility of the target is 0.8, so a run collapses below 0.4."""
RULE: Row = {
    "auto_lr": "gen",
    "auto_lr_probe": "same",
    "auto_lr_every": 10,
    "lr_updates": 3,
    "lr_updates_accepted": 2,
}
Fields = Callable[[int], Row]
"""Returns fields of the run on a seed."""
MakeStudy = Callable[..., LrStudy]

NO_ENTRIES: Mapping[str, object] = {}
_names = itertools.count()


def run(utility: float, lr: float, seed: int, /, **fields: object) -> Row:
    """Return a finished trial that meets the thresholds on forgetting, with losses that no other run has."""
    number = next(_names)
    known: Row = {"verbmem": 0.05, "truth_ratio": 0.8, "utility": utility, "lr": lr, "seed": seed}
    losses = 6.0 + number / 1e6, 0.5 + number / 1e6
    return trial(f"{number:06d}", *losses, **(known | fields))  # type: ignore[arg-type]


def hand(
    utilities: Mapping[float, float] = PEAK,
    *,
    seeds: Sequence[int] = range(20),
    spread: float = 0.01,
    of: Fields = lambda seed: {},
    **fields: object,
) -> list[Row]:
    """Return runs at fixed rates. The results on a seed share a shift."""
    return [
        run(utility + _shift(seed) + _normal(seed, index, spread), lr, seed, **(fields | of(seed)))
        for seed in seeds
        for index, (lr, utility) in enumerate(utilities.items())
    ]


def auto(
    difference: float = 0.0,
    *,
    seeds: Sequence[int] = range(20),
    starts: Sequence[float] = (1e-4,),
    spread: float = 0.01,
    of: Fields = lambda seed: {},
    **fields: object,
) -> list[Row]:
    """Return runs of a rule whose utility is ``difference`` above that of the best fixed rate."""
    return [
        run(0.70 + difference + _shift(seed) + _normal(seed, 90 + index, spread), lr, seed,
            **(RULE | fields | of(seed)))
        for seed in seeds
        for index, lr in enumerate(starts)
    ]  # fmt: skip


def _shift(seed: int) -> float:
    return 0.02 * float(np.sin(seed))


def _normal(seed: int, arm: int, spread: float) -> float:
    return float(np.random.default_rng([seed, arm]).normal(0.0, spread))


@pytest.fixture
def study(make_sweep: MakeSweep) -> MakeStudy:
    """``study(rows, rows, ..., **settings)`` reads the study in one or more sweeps.

    ``entries`` has further entries of sweep.json.
    """

    def make(*tables: Sequence[Row], entries: Mapping[str, object] = NO_ENTRIES, **settings: object) -> LrStudy:
        content = {"baseline": BASELINE | {"truth_ratio": 0.8}, "settings": settings, **entries}
        return read_study([make_sweep(rows, name=f"sweep-{next(_names)}", **content) for rows in tables])

    return make


def only(found: LrStudy) -> Verdict:
    """Return the only verdict of a study."""
    (verdict,) = found.verdicts
    return verdict
