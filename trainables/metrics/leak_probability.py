"""The probability that a model answers verbatim when its answer is sampled several times."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import Array, Cost, Metric

SAMPLES = 100
"""The number of samples, k."""


def leak_probability(nll: Array, samples: int) -> Array:
    """Return ``1 - (1 - p)^k``, float64 ``(n,)``, with ``p = exp(-nll)`` and k samples.

    ``nll`` is ``(n,)``: the sum of ``-log p`` over an answer's tokens, in nats, so p is the probability of sampling the
    answer at temperature 1. The result is accurate even if 1 - p rounds to 1.
    Hayes et al., Measuring memorization through probabilistic discoverable extraction, 2024 (arXiv:2410.19482).
    """
    import numpy as np

    with np.errstate(divide="ignore"):  # for p = 1, log(1 - p) is -inf and the result is 1
        log_miss = np.where(nll > np.log(2.0), np.log1p(-np.exp(-nll)), np.log(-np.expm1(-nll)))
    leaked: Array = -np.expm1(samples * log_miss)
    return leaked


def _sums(texts: Sequence[Array]) -> Array:
    import numpy as np

    return np.array([nll.sum() for nll in texts])


METRICS = (
    Metric(
        name="leak_probability",
        label=f"probability of a verbatim answer on the forget set in {SAMPLES} samples",
        direction="min",
        of="forget",
        sets=("robustness",),
        each_evaluation=True,
        cost=Cost.NONE,
        formula=f"mean of 1 - (1 - p)^{SAMPLES} over the answers of the forget set, where p is the product of the "
        "probabilities of an answer's tokens without the end token, so p is the probability of sampling the answer at "
        "temperature 1",
        citation="(n, p)-discoverable extraction: Hayes et al., Measuring memorization through probabilistic "
        "discoverable extraction, 2024 (arXiv:2410.19482)",
        measure=lambda scores: item_mean(leak_probability(_sums([text.nll for text in scores.forget_tokens]), SAMPLES)),
    ),
)
