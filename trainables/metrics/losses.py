"""The metrics that are measured after every epoch: the cross-entropy on the forget set and on the retain sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainables.metrics.items import Array
from trainables.metrics.metric import LANGUAGE, VISION, Cost, Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ItemLosses(NamedTuple):
    """The losses of n items; each array has the shape ``(n,)``.

    Attributes:
        totals: the sum of the losses of an item's supervised positions (nats).
        capped: the same sum, with each position's loss capped at the loss of a uniform guess.
        counts: the number of supervised positions.
        agreed: the number of supervised positions before the first position with a wrong prediction.
        instead: the predicted token or label at the first position with a wrong prediction; -1 if there is none.
    """

    totals: Array
    capped: Array
    counts: Array
    agreed: NDArray[np.int64]
    instead: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SetLosses:
    """The per-item losses of the forget set and the retain sample, and the loss of a uniform guess, ``ln|V|``."""

    forget: ItemLosses
    retain: ItemLosses
    random_guess: float


def mean_loss(losses: ItemLosses) -> float:
    """Return the mean loss over all supervised positions of a set (nats); NaN if an item's loss is not finite."""
    totals = losses.totals
    return math.fsum(totals) / float(sum(losses.counts)) if all(map(math.isfinite, totals)) else math.nan


def standard_error(losses: ItemLosses) -> float:
    """Return the standard error of :func:`mean_loss` (nats) for a random sample of items; NaN for fewer than two items.

    The mean over tokens is a ratio of two sums, so the result is the standard error of the ratio estimator (Cochran,
    Sampling Techniques, 1977, section 6.3): sqrt(n / (n - 1) sum (t_i - m n_i)^2) / sum n_i. Here n is the number of
    items, m is the mean loss, and item i has the summed loss t_i and n_i tokens.
    """
    number = len(losses.totals)
    if number < 2 or math.isnan(mean := mean_loss(losses)):
        return math.nan
    squares = math.fsum((losses.totals - mean * losses.counts) ** 2)
    return math.sqrt(number / (number - 1) * squares) / float(sum(losses.counts))


def agreement(losses: ItemLosses) -> float:
    """Return the share of supervised positions before an item's first wrong prediction, as a mean over the items.

    For sequences, this is the share of an answer that greedy decoding reproduces before the first wrong token. The
    share needs only one forward pass, and underestimates the greedy answer's ROUGE-L recall. For images, the result is
    the accuracy.
    """
    return float((losses.agreed / losses.counts).mean())


def capped_mean_loss(losses: ItemLosses, random_guess: float) -> float:
    """Return the mean of the positions' losses (nats), each capped at ``random_guess``; NaN if a loss is not finite.

    A token with a loss of 500 is not "more forgotten" than a token with the loss of a uniform guess, so each loss is
    capped. If only the mean were capped, a few tokens with very large losses could hide tokens that the model still
    knows.
    """
    if math.isnan(mean_loss(losses)):
        return math.nan
    mean = mean_loss(losses._replace(totals=losses.capped))
    return min(mean, random_guess)  # with rounding errors, the mean may exceed the cap


_loss = partial(Metric, unit="nats per {item}", high=None, loss=True, modalities=(LANGUAGE, VISION), cost=Cost.FORWARD)
METRICS = (
    _loss(
        name="forget_loss",
        label="forget loss",
        direction="max",
        of="forget",
        formula="sum of -log p over the supervised tokens of the forget set / number of these tokens",
        citation="the paper's L_F; a search optimises forget_loss_capped instead",
        measure=lambda losses: mean_loss(losses.forget),
        optimised_as="forget_loss_capped",
    ),
    _loss(
        name="retain_loss",
        label="retain loss",
        direction="min",
        of="retain",
        formula="sum of -log p over the supervised tokens of the retain set's fixed sample / number of these tokens",
        citation="the paper's L_R",
        measure=lambda losses: mean_loss(losses.retain),
    ),
    _loss(
        name="forget_loss_capped",
        label="forget loss",
        direction="max",
        of="forget",
        formula="sum of min(-log p, ln|V|) over the supervised tokens of the forget set / number of these tokens",
        citation="the paper's L_F with a cap, so that no token counts as more forgotten than a uniform guess",
        measure=lambda losses: capped_mean_loss(losses.forget, losses.random_guess),
    ),
)
