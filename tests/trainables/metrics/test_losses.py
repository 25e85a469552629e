"""Mean losses by hand, in cases where a cap on each token and a cap on the mean give different results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from trainables.metrics.losses import ItemLosses, SetLosses, mean_loss, standard_error
from trainables.metrics.registry import METRICS

GUESS = math.log(100)


def _losses(*items: list[float], agreed: Sequence[int] = ()) -> ItemLosses:
    """Return the losses of items that are given token by token."""
    return ItemLosses(
        agreed=np.array(agreed),
        instead=np.array([]),
        totals=np.array([sum(item) for item in items]),
        capped=np.array([sum(min(nll, GUESS) for nll in item) for item in items]),
        counts=np.array([float(len(item)) for item in items]),
    )


def _capped(forget: ItemLosses) -> float:
    return METRICS["forget_loss_capped"].measure(SetLosses(forget, _losses([1.0]), GUESS))


def test_the_capped_loss_is_the_mean_below_the_guess_and_never_above_the_guess() -> None:
    known = _losses([0.25, 0.5], [2.0])
    assert _capped(known) == mean_loss(known)
    capped = _capped(_losses(*([50.0] * 7 for _ in range(101))))
    assert capped == pytest.approx(GUESS, rel=1e-15)
    assert capped <= GUESS


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_one_loss_that_is_not_finite_makes_both_means_nan(broken: float) -> None:
    forget = _losses([1.0, broken], [2.0])
    assert math.isnan(mean_loss(forget))
    assert math.isnan(_capped(forget))


def test_the_standard_error_is_that_of_a_mean_if_all_items_have_one_length() -> None:
    losses = _losses([1.0, 2.0], [0.5, 0.0], [3.0, 4.5], [0.25, 1.0])
    means = losses.totals / losses.counts
    assert standard_error(losses) == pytest.approx(means.std(ddof=1) / math.sqrt(4), rel=1e-14)


def test_the_standard_error_is_the_spread_of_the_means_of_new_samples() -> None:
    rng = np.random.default_rng(5)

    def drawn() -> ItemLosses:
        counts = rng.integers(5, 60, size=200).astype(float)
        totals = counts * rng.gamma(2.0, 0.3, size=200)
        return _losses([1.0])._replace(totals=totals, counts=counts)

    samples = [drawn() for _ in range(2000)]
    spread = np.std([mean_loss(sample) for sample in samples])
    assert np.mean([standard_error(sample) for sample in samples]) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("losses", [_losses([1.0]), _losses([math.inf], [1.0])], ids=["one item", "not finite"])
def test_the_standard_error_of_one_item_or_of_losses_that_are_not_finite_is_nan(losses: ItemLosses) -> None:
    assert math.isnan(standard_error(losses))
