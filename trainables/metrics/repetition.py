"""Repetition in generated answers: the share of repeated 3-grams, and the longest loop.

A text is split into units: words and single punctuation marks, without regard to case. In a script without spaces
between words, such as Han or Thai, each letter is a unit. Limitations:

- An empty answer scores 0, the best value.
- A loop within one word (``lalalala``) is not detected.
- An ellipsis of three dots counts as a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import eq
from typing import Literal

from search_spaces.common.words import units
from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import Array, Cost, Metric

NGRAM = 3
REPEATS = 3
"""The minimum number of consecutive occurrences of a phrase in a loop."""


def repetition(texts: Sequence[str]) -> Array:
    """Return the share of repeated 3-grams per text, ``1 - |distinct 3-grams| / |3-grams|``: float64 ``(n,)``, [0, 1).

    A text with fewer than three words and punctuation marks scores 0. The formula is seq-rep-n of Welleck et al.,
    Neural Text Generation With Unlikelihood Training, ICLR 2020 (arXiv:1908.04319), with n = 3, and with words and
    punctuation marks instead of tokens.
    """
    import numpy as np

    return np.array([_repetition_of(text) for text in texts], dtype=np.float64)


def longest_loop(texts: Sequence[str]) -> Array:
    """Return the share of a text's words and punctuation marks in its longest loop: float64 ``(n,)`` in [0, 1].

    In a loop, a phrase occurs at least three times in a row. The last phrase of the loop may be incomplete. Holtzman et
    al., The Curious Case of Neural Text Degeneration, ICLR 2020 (arXiv:1904.09751), count only loops at the end of a
    text.
    """
    import numpy as np

    return np.array([_longest_loop_of(text) for text in texts], dtype=np.float64)


def _repetition_of(text: str) -> float:
    tokens = units(text)
    ngrams = [tuple(tokens[start : start + NGRAM]) for start in range(len(tokens) - NGRAM + 1)]
    return 1.0 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def _longest_loop_of(text: str) -> float:
    tokens = units(text)
    longest = 0
    for period in range(1, len(tokens) // REPEATS + 1):
        # Compare each token with the token one period earlier. A run of equal tokens continues a loop.
        is_repeated = list(map(eq, tokens[period:], tokens))
        min_run = max((REPEATS - 1) * period, longest - period + 1)
        if sum(is_repeated) < min_run:
            continue  # no run is long enough
        longest_run = max(len(list(run)) for repeated, run in groupby(is_repeated) if repeated)
        if longest_run >= min_run:
            longest = longest_run + period
    return longest / len(tokens) if longest else 0.0


def _metrics(of: Literal["forget", "retain"], answers: str) -> tuple[Metric, Metric]:
    """Return both repetition metrics, measured on the answers from which the metric named ``answers`` is computed."""
    common = partial(Metric, of=of, fluency=True, direction="min", sets=("default",), cost=Cost.GENERATION)
    return (
        common(
            name=f"{of}_repetition",
            label=f"repetition in answers on the {of} set",
            unit="share of 3-grams",
            formula="share of repeated 3-grams of words and punctuation marks (1 - distinct / all), averaged over the "
            f"answers used for {answers}",
            citation="Welleck et al., Neural Text Generation With Unlikelihood Training, ICLR 2020 (arXiv:1908.04319): "
            "seq-rep-n, with n = 3 instead of 4, over words and punctuation marks instead of the model's tokens",
            measure=lambda scores: item_mean(repetition(scores.greedy_answers(of, prompts=answers))),
        ),
        common(
            name=f"{of}_longest_loop",
            label=f"longest loop in answers on the {of} set",
            unit="share of the answer",
            formula="share of an answer's words and punctuation marks that belong to its longest loop (a phrase "
            f"repeated at least three times in a row), averaged over the answers used for {answers}",
            citation="Holtzman et al., The Curious Case of Neural Text Degeneration, ICLR 2020 (arXiv:1904.09751), "
            "which counts generations that end in a phrase repeated at least three times; this metric measures "
            "which share of an answer is a loop",
            measure=lambda scores: item_mean(longest_loop(scores.greedy_answers(of, prompts=answers))),
        ),
    )


METRICS = (*_metrics("forget", "verbmem"), *_metrics("retain", "utility"))
