"""Memorisation of a text, measured from a model's most probable next tokens under teacher forcing.

``predicted[i][j]`` is the most probable token after the prompt and the first j true tokens of item i. ``labels[i][j]``
is the true token. The caller decides whether to include the final EOS (OpenUnlearning, arXiv:2506.12618, omits it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainables.metrics.metric import CARLINI, Cost, Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from trainables.metrics.items import Array
    from trainables.scoring.language import ModelScores


def exact_memorization(predicted: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> Array:
    """Return the share of correctly predicted tokens per item: float64 ``(n,)``.

    Tirumala et al., Memorization Without Overfitting, NeurIPS 2022 (arXiv:2205.10770).
    """
    import numpy as np

    return np.array([hits.mean() for hits in _hits(predicted, labels)])


def extraction_strength(predicted: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> Array:
    """Return ``1 - k/T`` per item: float64 ``(n,)``. Greedy decoding needs the first k of T tokens to give all others.

    Carlini et al., Extracting Training Data from Large Language Models, 2021 (arXiv:2012.07805). If the last token is
    predicted wrong, the result is 0. In this case, OpenUnlearning's code returns 1/T. Teacher forcing is sufficient:
    greedy decoding from the first k tokens gives all others if and only if all predictions from position k are right.
    """
    import numpy as np

    strengths = []
    for hits in _hits(predicted, labels):
        misses = np.flatnonzero(~hits)
        prefix = misses[-1] + 1 if misses.size else 0
        strengths.append((hits.size - prefix) / hits.size)
    return np.array(strengths, dtype=np.float64)


def _hits(predicted: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> list[NDArray[np.bool_]]:
    import numpy as np

    return [np.asarray(guess) == np.asarray(truth) for guess, truth in zip(predicted, labels, strict=True)]


def _mean(measure: Callable[..., Array], scores: ModelScores) -> float:
    items = scores.tokens["forget"]
    return float(measure([item.predicted for item in items], [item.labels for item in items]).mean())


_memorised = partial(Metric, direction="min", of="forget", cost=Cost.FORWARD)
METRICS = (
    _memorised(
        name="extraction_strength",
        label="extraction strength on the forget set",
        formula="mean of 1 - k/T, where greedy decoding needs the first k of an answer's T tokens to give the others",
        citation=CARLINI,
        measure=lambda scores: _mean(extraction_strength, scores),
    ),
    _memorised(
        name="exact_memorization",
        label="exact memorization of the forget set",
        formula="mean share of answer tokens that are the most probable token after the true previous tokens",
        citation="Tirumala et al., Memorization Without Overfitting, NeurIPS 2022 (arXiv:2205.10770)",
        measure=lambda scores: _mean(exact_memorization, scores),
    ),
)
