"""Membership inference: how well a model's confidence separates training texts from other texts.

Each attack is a function that returns one score per text of an evaluation set, float64 ``(n,)``. A higher score means
that the text is more likely a training text. The scores are computed from the log-probabilities (nats) of supervised
tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.metrics.metric import CARLINI, HOLDOUT, RETAIN_MODEL, Array, Cost, Metric, Need

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trainables.scoring.language import ModelScores

MIN_K = 0.4  # the share that MUSE's PrivLeak and OpenUnlearning use
SMALLEST_STD = 1e-3  # OpenUnlearning's lower bound (variance 1e-6); a position with p = 1 would divide by zero


def loss_scores(scores: ModelScores, set_name: str) -> Array:
    """Return ``mean_t log p_t``. Yeom et al., Privacy Risk in ML, 2018 (arXiv:1709.01604)."""
    import numpy as np

    return np.array([text.log_probs.mean() for text in scores.tokens[set_name]])


def zlib_scores(scores: ModelScores, set_name: str) -> Array:
    """Return ``mean_t log p_t / bytes(zlib(text))``. Carlini et al., 2021 (arXiv:2012.07805)."""
    import numpy as np

    sizes = [len(zlib.compress(text.encode())) for text in scores.answer_texts(set_name)]
    return loss_scores(scores, set_name) / np.array(sizes, dtype=np.float64)


def min_k_scores(scores: ModelScores, set_name: str) -> Array:
    """Return the mean of the lowest ``max(1, int(0.4 T))`` values of ``log p_t``.

    Shi et al., Detecting Pretraining Data from Large Language Models, ICLR 2024 (arXiv:2310.16789).
    """
    import numpy as np

    return np.array([_mean_of_lowest(text.log_probs) for text in scores.tokens[set_name]])


def min_k_plus_plus_scores(scores: ModelScores, set_name: str) -> Array:
    """Return the mean of the lowest ``max(1, int(0.4 T))`` values of ``(log p_t - mu_t) / sigma_t``.

    ``mu_t`` and ``sigma_t`` are the mean and standard deviation of ``log p(v)`` for tokens v drawn from p. Zhang et
    al., Min-K%++, ICLR 2025 (arXiv:2404.02936).
    """
    import numpy as np

    texts = scores.tokens[set_name]
    return np.array(
        [_mean_of_lowest((text.log_probs - text.means) / np.maximum(text.stds, SMALLEST_STD)) for text in texts]
    )


def reference_scores(scores: ModelScores, set_name: str) -> Array:
    """Return ``mean_t log p_t - mean_t log p_ref,t``. Carlini et al., 2021 (arXiv:2012.07805).

    The reference ``p_ref`` is the retain model, which was not trained on the texts.
    """
    assert scores.retain is not None
    reference_log_probs = scores.retain.holdout_log_probs if set_name == "holdout" else scores.retain.forget_log_probs
    return loss_scores(scores, set_name) - reference_log_probs


def membership_auc(members: ArrayLike, others: ArrayLike) -> float:
    """Return the area under the ROC curve, ``P(member > other) + P(member = other)/2`` over all pairs.

    An area of 0.5 means no separation. The result is NaN if a score is NaN.
    """
    import numpy as np
    from scipy.stats import mannwhitneyu  # imported here, because the import takes a second, too long for --help

    u_statistic = mannwhitneyu(members, others, method="asymptotic").statistic
    return float(u_statistic) / (np.size(members) * np.size(others))


def _mean_of_lowest(values: Array) -> float:
    import numpy as np

    if np.isnan(values).any():  # NaN sorts last, so it would be ignored
        return np.nan
    return float(np.sort(values)[: max(1, int(MIN_K * values.size))].mean())


def _attack(
    name: str,
    *,
    label: str,
    score: str,
    citation: str,
    per_text: Callable[[ModelScores, str], Array],
    needs: tuple[Need, ...] = (HOLDOUT,),
) -> Metric:
    """Return the metric of an attack. ``score`` describes the score per text, which ``per_text`` returns."""
    return Metric(
        name=name,
        label=f"membership inference by {label}",
        unit="AUC",
        ideal=0.5,
        knows="max",
        of="forget",
        sets=("mia",),
        needs=needs,
        cost=Cost.FORWARD,
        formula=f"AUC of {score}, with the forget set as members and the holdout set as non-members; 0.5 means no "
        "separation",
        citation=citation,
        measure=lambda scores: membership_auc(*scores.attack(name, per_text)),
    )


MIN_K_ATTACK = _attack(
    "mia_min_k",
    label="min-k%",
    score="the mean of the lowest 40% of a text's values of log p",
    citation="Shi et al., Detecting Pretraining Data, ICLR 2024 (arXiv:2310.16789)",
    per_text=min_k_scores,
)
METRICS = (
    _attack(
        "mia_loss",
        label="loss",
        score="the mean log-probability of a text's tokens",
        citation="Yeom et al., Privacy Risk in Machine Learning, 2018 (arXiv:1709.01604)",
        per_text=loss_scores,
    ),
    _attack(
        "mia_zlib",
        label="zlib",
        score="the mean log-probability of a text's tokens, divided by the zlib-compressed size of the text in bytes",
        citation=CARLINI,
        per_text=zlib_scores,
    ),
    MIN_K_ATTACK,
    _attack(
        "mia_min_k_plus_plus",
        label="min-k%++",
        score="the mean of the lowest 40% of a text's values of (log p - mu)/sigma, where mu and sigma are the mean "
        "and standard deviation of log p under the model's own prediction",
        citation="Zhang et al., Min-K%++, ICLR 2025 (arXiv:2404.02936)",
        per_text=min_k_plus_plus_scores,
    ),
    _attack(
        "mia_reference",
        label="reference",
        score="the mean log-probability of a text's tokens, minus the same mean under the retain model",
        citation=CARLINI,
        per_text=reference_scores,
        needs=(HOLDOUT, RETAIN_MODEL),
    ),
)
