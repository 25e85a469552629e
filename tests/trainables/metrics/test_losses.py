"""Mean losses by hand, in cases where a cap on each token and a cap on the mean give different results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from trainables.metrics.losses import ItemLosses, capped_mean_loss, mean_loss, standard_error

GUESS = math.log(100)


def _losses(*items: list[float], agreed: Sequence[int] = ()) -> ItemLosses:
    return ItemLosses(
        agreed=np.array(agreed),
        first_wrong=np.array([]),
        totals=np.array([sum(item) for item in items]),
        capped=np.array([sum(min(nll, GUESS) for nll in item) for item in items]),
        counts=np.array([float(len(item)) for item in items]),
    )


def _capped(forget: ItemLosses) -> float:
    return capped_mean_loss(forget, GUESS)


def test_the_capped_loss_is_the_mean_below_the_guess_and_never_above_the_guess() -> None:
    known = _losses([0.25, 0.5], [2.0])
    assert _capped(known) == mean_loss(known)
    capped = _capped(_losses(*([50.0] * 7 for _ in range(101))))
    assert capped == pytest.approx(GUESS, rel=1e-15)
    assert capped <= GUESS


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_one_loss_that_is_not_finite_makes_both_means_and_the_standard_error_nan(broken: float) -> None:
    forget = _losses([1.0, broken], [2.0])
    assert math.isnan(mean_loss(forget))
    assert math.isnan(_capped(forget))
    assert math.isnan(standard_error(forget))
    assert math.isnan(standard_error(_losses([1.0]))), "of one item"


def test_the_standard_error_is_the_spread_of_the_means_of_new_samples() -> None:
    rng = np.random.default_rng(5)

    def drawn() -> ItemLosses:
        counts = rng.integers(5, 60, size=200).astype(float)
        totals = counts * rng.gamma(2.0, 0.3, size=200)
        return _losses([1.0])._replace(totals=totals, counts=counts)

    samples = [drawn() for _ in range(2000)]
    spread = np.std([mean_loss(sample) for sample in samples])
    assert np.mean([standard_error(sample) for sample in samples]) == pytest.approx(spread, rel=0.05)
