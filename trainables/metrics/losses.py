"""The losses on the forget set and on a sample of the retain set, which are measured at each evaluation of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainables.metrics.item_mean import ItemMean, item_mean
from trainables.metrics.metric import LANGUAGE, VISION, Array, Cost, Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ItemLosses(NamedTuple):
    """The losses of n examples (tokenised texts or images). Each array is ``(n,)``.

    Attributes:
        totals: the sum of the losses at an example's supervised positions, in nats.
        capped: the same sum, with the loss at each position capped at ``ln|V|``, the loss of a uniform guess.
        counts: the number of supervised positions.
        agreed: the number of supervised positions before the first wrong prediction.
        first_wrong: the first wrong prediction, as a token or label; -1 if all predictions are right.
    """

    totals: Array
    capped: Array
    counts: Array
    agreed: NDArray[np.int64]
    first_wrong: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[ItemLosses]) -> ItemLosses:
        """Return the losses of all examples of several sets, in order."""
        import numpy as np

        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def mean_loss(losses: ItemLosses) -> ItemMean:
    """Return the mean loss over all supervised positions, in nats; NaN if a loss is not finite."""
    is_finite = all(math.isfinite(total) for total in losses.totals)
    mean = math.fsum(losses.totals) / float(sum(losses.counts)) if is_finite else math.nan
    return ItemMean(mean, [(losses.totals, losses.counts)])


def standard_error(losses: ItemLosses) -> float:
    """Return the standard error of :func:`mean_loss`, in nats; NaN for fewer than two examples.

    The formula is that of the ratio estimator (Cochran, Sampling Techniques, 1977, section 6.3):

        sqrt(n / (n - 1) sum (t_i - m n_i)^2) / sum n_i.

    Here n is the number of examples, and m is the mean loss. Example i has n_i supervised positions, and t_i is the sum
    of the losses at these positions.
    """
    n = len(losses.totals)
    if n < 2:
        return math.nan
    m = mean_loss(losses)
    if math.isnan(m):
        return math.nan
    squares = math.fsum((losses.totals - m * losses.counts) ** 2)  # sum (t_i - m n_i)^2
    return math.sqrt(n / (n - 1) * squares) / float(sum(losses.counts))


def agreement(losses: ItemLosses) -> ItemMean:
    """Return the mean, over the examples, of the share of supervised positions before the first wrong prediction.

    For images, the result is the accuracy. For text, the result underestimates the ROUGE-L recall of the greedily
    decoded answer.
    """
    return item_mean(losses.agreed / losses.counts)


def capped_mean_loss(losses: ItemLosses, random_guess: float) -> ItemMean:
    """Return the mean of the losses capped at ``random_guess``, in nats; NaN if a loss is not finite."""
    # If only the mean were capped, a few very large losses could hide tokens that the model still knows.
    mean = mean_loss(losses._replace(totals=losses.capped))
    # With rounding errors, the mean may exceed the cap.
    value = math.nan if math.isnan(mean_loss(losses)) else min(mean, random_guess)
    return ItemMean(value, mean.parts)


_loss = partial(Metric, unit="nats per {item}", high=None, loss=True, modalities=(LANGUAGE, VISION), cost=Cost.FORWARD)
METRICS = (
    _loss(
        name="forget_loss",
        label="forget loss",
        direction="max",
        of="forget",
        formula="mean of -log p over all answer tokens or labels of the forget set, where p is the model's probability",
        citation="L_F in the NGDiff paper; a search optimises forget_loss_capped instead",
        measure=lambda scores: mean_loss(scores.forget_losses),
        optimised_as="forget_loss_capped",
    ),
    _loss(
        name="retain_loss",
        label="retain loss",
        direction="min",
        of="retain",
        formula="mean of -log p over all answer tokens or labels of a fixed sample of the retain set, where p is the "
        "model's probability",
        citation="L_R in the NGDiff paper",
        measure=lambda scores: mean_loss(scores.retain_losses),
    ),
    _loss(
        name="forget_loss_capped",
        label="forget loss capped",
        direction="max",
        of="forget",
        formula="mean of min(-log p, ln|V|) over all answer tokens or labels of the forget set, where ln|V| is the "
        "loss of a uniform guess",
        citation="L_F in the NGDiff paper, with a cap, so that no token counts as more forgotten than with a uniform "
        "guess",
        measure=lambda scores: capped_mean_loss(scores.forget_losses, scores.random_guess),
    ),
)
