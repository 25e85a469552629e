"""Membership inference: how well a model's confidence separates training texts from other texts.

A text with a higher score is more likely a training text. ``log_probs[i]`` holds the log-probabilities (nats) of the
supervised tokens of text i. The score functions return float64 ``(n,)``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trainables.metrics.items import Array, column, rows
from trainables.metrics.metric import CARLINI, HOLDOUT, RETAIN_MODEL, Cost, Metric, Need

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trainables.scoring.language import ModelScores

MIN_K = 0.4  # the share that MUSE's PrivLeak and OpenUnlearning use
SMALLEST_STD = 1e-3  # OpenUnlearning's lower bound (variance 1e-6); a position with p = 1 would divide by zero


def loss_scores(log_probs: Sequence[ArrayLike]) -> Array:
    """Return ``mean_t log p_t``. Yeom et al., Privacy Risk in ML, 2018 (arXiv:1709.01604)."""
    import numpy as np

    return np.array([row.mean() for row in rows(log_probs)])


def zlib_scores(log_probs: Sequence[ArrayLike], texts: Sequence[str]) -> Array:
    """Return ``mean_t log p_t / bytes(zlib(text))``. Carlini et al., 2021 (arXiv:2012.07805)."""
    import numpy as np

    sizes = [len(zlib.compress(text.encode())) for text in texts]
    return loss_scores(log_probs) / np.array(sizes, dtype=np.float64)


def min_k_scores(log_probs: Sequence[ArrayLike], *, fraction: float = MIN_K) -> Array:
    """Return the mean of the lowest ``max(1, int(fraction * T))`` values of ``log p_t``.

    Shi et al., Detecting Pretraining Data from Large Language Models, ICLR 2024 (arXiv:2310.16789).
    """
    return _mean_of_lowest(rows(log_probs), fraction)


def min_k_plus_plus_scores(
    log_probs: Sequence[ArrayLike],
    means: Sequence[ArrayLike],
    stds: Sequence[ArrayLike],
    *,
    fraction: float = MIN_K,
) -> Array:
    """Return the mean of the lowest ``max(1, int(fraction * T))`` values of ``(log p_t - mu_t) / sigma_t``.

    ``means[i][t]`` and ``stds[i][t]`` are the mean and standard deviation of ``log p(v)`` for tokens v drawn from p.
    Zhang et al., Min-K%++, ICLR 2025 (arXiv:2404.02936).
    """
    import numpy as np

    items = zip(rows(log_probs), rows(means), rows(stds), strict=True)
    return _mean_of_lowest([(token - mean) / np.maximum(std, SMALLEST_STD) for token, mean, std in items], fraction)


def reference_scores(log_probs: Sequence[ArrayLike], reference: Sequence[ArrayLike]) -> Array:
    """Return ``mean_t log p_t - mean_t log p_ref,t``. Carlini et al., 2021 (arXiv:2012.07805).

    The reference model was not trained on the texts. The tokenizers of the models may differ.
    """
    return loss_scores(log_probs) - loss_scores(reference)


def membership_auc(members: ArrayLike, others: ArrayLike) -> float:
    """Return the area under the ROC curve, ``P(member > other) + P(member = other)/2`` over all pairs.

    An area of 0.5 means no separation. The result is NaN if a score is NaN.
    """
    from scipy.stats import mannwhitneyu  # imported here, because the import takes a second, too long for --help

    inside, outside = column(members), column(others)
    won = mannwhitneyu(inside, outside, method="asymptotic").statistic
    return float(won) / (inside.size * outside.size)


def _mean_of_lowest(values: Sequence[Array], fraction: float) -> Array:
    import numpy as np

    # NaN sorts last, so without this check a token with a NaN score would be ignored.
    return np.array(
        [np.nan if np.isnan(row).any() else np.sort(row)[: max(1, int(fraction * row.size))].mean() for row in values]
    )


def _attack(
    name: str, label: str, score: str, citation: str, per_text: Callable[[ModelScores, str], Array], *more: Need
) -> Metric:
    return Metric(
        name=name,
        label=f"membership inference by {label}",
        unit="AUC",
        ideal=0.5,
        of="forget",
        sets=("mia",),
        needs=(HOLDOUT, *more),
        cost=Cost.FORWARD,
        formula=f"AUC of {score} for the forget set (members) against the holdout set; 0.5 means no separation",
        citation=citation,
        measure=lambda scores: membership_auc(*scores.attack(name, per_text)),
    )


def _log_probs(scores: ModelScores, part: str) -> list[Array]:
    return [item.log_probs for item in scores.tokens[part]]


def text_loss_scores(scores: ModelScores, part: str) -> Array:
    """Return the :func:`loss_scores` of the texts of an evaluation set."""
    return loss_scores(_log_probs(scores, part))


def _min_k_plus_plus(scores: ModelScores, part: str) -> Array:
    items = scores.tokens[part]
    means, stds = [item.means for item in items], [item.stds for item in items]
    return min_k_plus_plus_scores(_log_probs(scores, part), means, stds)


def _reference(scores: ModelScores, part: str) -> Array:
    assert scores.retain is not None
    known = scores.retain.holdout_log_probs if part == "holdout" else scores.retain.forget_log_probs
    return reference_scores(_log_probs(scores, part), [[value] for value in known])


MIN_K_ATTACK = _attack(
    "mia_min_k",
    "min-k%",
    "the mean of the lowest 40% of log p",
    "Shi et al., Detecting Pretraining Data, ICLR 2024 (arXiv:2310.16789)",
    lambda scores, part: min_k_scores(_log_probs(scores, part)),
)
METRICS = (
    _attack(
        "mia_loss",
        "loss",
        "mean log p",
        "Yeom et al., Privacy Risk in Machine Learning, 2018 (arXiv:1709.01604)",
        text_loss_scores,
    ),
    _attack(
        "mia_zlib",
        "zlib",
        "mean log p / size of the zlib-compressed text in bytes",
        CARLINI,
        lambda scores, part: zlib_scores(_log_probs(scores, part), scores.answer_texts(part)),
    ),
    MIN_K_ATTACK,
    _attack(
        "mia_min_k_plus_plus",
        "min-k%++",
        "the mean of the lowest 40% of (log p - mu) / sigma",
        "Zhang et al., Min-K%++, ICLR 2025 (arXiv:2404.02936)",
        _min_k_plus_plus,
    ),
    _attack(
        "mia_reference",
        "reference",
        "the evaluated model's mean log p minus the retain model's mean log p",
        CARLINI,
        _reference,
        RETAIN_MODEL,
    ),
)
