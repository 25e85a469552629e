"""Memorisation of a text, measured from a model's most probable next tokens under teacher forcing.

As in OpenUnlearning (arXiv:2506.12618), the final EOS is not counted. Each function returns one value per text. Its
input has one bool array ``(T,)`` per text: whether each token is predicted correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import CARLINI, Array, Cost, Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def exact_memorization(texts: Sequence[NDArray[np.bool_]]) -> Array:
    """Return the share of correctly predicted tokens per text: float64 ``(n,)``.

    Tirumala et al., Memorization Without Overfitting, NeurIPS 2022 (arXiv:2205.10770).
    """
    import numpy as np

    return np.array([correct.mean() for correct in texts])


def extraction_strength(texts: Sequence[NDArray[np.bool_]]) -> Array:
    """Return ``1 - k/T`` per text, float64 ``(n,)``, for a text of T tokens.

    Greedy decoding from the first k tokens gives the other T - k tokens, and k is the smallest such number. This is
    also the smallest k for which all predictions after the first k tokens are right under teacher forcing. If the
    prediction of the last token is wrong, the result is 0. In this case, OpenUnlearning's code returns 1/T. Carlini et
    al., Extracting Training Data from Large Language Models, 2021 (arXiv:2012.07805).
    """
    import numpy as np

    strengths = []
    for correct in texts:
        misses = np.flatnonzero(~correct)
        k = misses[-1] + 1 if misses.size else 0
        strengths.append((correct.size - k) / correct.size)
    return np.array(strengths, dtype=np.float64)


_memorised = partial(Metric, direction="min", of="forget", each_evaluation=True, cost=Cost.NONE)
METRICS = (
    _memorised(
        name="extraction_strength",
        sets=("robustness",),
        label="extraction strength on the forget set",
        formula="mean of 1 - k/T over answers of T tokens, where k is the smallest number of first tokens from which "
        "greedy decoding gives all others",
        citation=CARLINI,
        measure=lambda scores: item_mean(extraction_strength([text.correct for text in scores.forget_tokens])),
    ),
    _memorised(
        name="exact_memorization",
        label="exact memorization of the forget set",
        formula="share of an answer's tokens that the model finds most probable after the true previous tokens; mean "
        "over the answers",
        citation="Tirumala et al., Memorization Without Overfitting, NeurIPS 2022 (arXiv:2205.10770)",
        measure=lambda scores: item_mean(exact_memorization([text.correct for text in scores.forget_tokens])),
    ),
)
