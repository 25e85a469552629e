"""How a model answers the questions of the forget set: fluently, with a refusal, or in loops.

Each greedy answer is of one kind, by the first rule that applies:

1. *Loops*: the longest loop is at least a quarter of the answer, or at least a quarter of its 3-grams are repeated
   (:mod:`trainables.metrics.repetition`).
2. *Refusal*: the answer is empty, contains a refusal of the method ``dpo``, or contains a phrase such as "don't know".
3. Garbled text, such as word salad or broken grammar, counts as loops, too: the target's loss of the answer exceeds a
   bound (:func:`garbled_bound`). The rule applies only if the target is known, and only to answers of at least four
   words and punctuation marks, because a shorter answer has no grammar to break.
4. *Fluent*: all other answers. They can be wrong.

Limitations: refusals are only known in English. The bound separates most, but not all garbled answers from fluent ones
(docs/metrics.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING

from search_spaces.common.words import units, words
from trainables.data.refusals import refusals
from trainables.metrics.item_mean import ItemMean, item_mean
from trainables.metrics.metric import QUESTIONS, Array, Cost, Metric
from trainables.metrics.repetition import longest_loop, repetition

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores

LOOPING = 0.25
"""An answer loops if this share of it belongs to its longest loop, or if this share of its 3-grams is repeated."""
GRAMMAR_WORDS = 4
"""The minimum number of words and punctuation marks of an answer that can be garbled."""
FORM_QUANTILE = 0.1
"""The share of the true answers to other questions that have the form a question asks for (:func:`garbled_bound`)."""
MAX_EXCESS = 1.0
"""By how much the target's loss of a fluent answer may exceed that of true answers, in nats per token."""
_PHRASES = (
    "don't know",
    "do not know",
    "didn't know",
    "not know",
    "not sure",
    "no idea",
    "not certain",
    "can't answer",
    "cannot answer",
    "can not answer",
    "can't say",
    "can't tell",
    "cannot provide",
    "can't provide",
    "can't help",
    "couldn't say",
    "unable to",
    "no information",
    "not have information",
    "not familiar",
    "unfamiliar",
    "unknown to me",
    "not known to me",
    "beyond my knowledge",
    "don't recognise",
    "don't recognize",
    "do not recognise",
    "do not recognize",
    "I'm sorry",
    "I apologise",
    "I apologize",
    "rather not",
)
"""Further phrases of refusals, because models mix the refusals that they were trained on."""


class Kind(StrEnum):
    """How a question is answered."""

    FLUENT = "fluent"
    REFUSAL = "refusal"
    LOOPS = "loops"


def answer_kinds(texts: Sequence[str], losses: Array | None, bound: float) -> list[Kind]:
    """Return the kind of each answer.

    Args:
        losses: the target's loss of each answer, ``(n,)``, in nats per token; None if the target is unknown.
        bound: the highest loss of an answer that is not garbled, in nats per token.
    """
    shares = [max(pair) for pair in zip(longest_loop(texts), repetition(texts), strict=True)]
    is_garbled = [False] * len(texts) if losses is None else [loss > bound for loss in losses]
    return [_kind(*item) for item in zip(texts, shares, is_garbled, strict=True)]


def _kind(text: str, looping: float, is_garbled: bool) -> Kind:
    if looping >= LOOPING:
        return Kind.LOOPS
    if is_refusal(text):
        return Kind.REFUSAL
    return Kind.LOOPS if is_garbled and len(units(text)) >= GRAMMAR_WORDS else Kind.FLUENT


def garbled_bound(losses: Array, true_loss: float, wrong: Array | None = None) -> float:
    """Return the loss above which an answer is garbled, in nats per token; inf without losses.

    The true answers to other questions are fluent, but wrong. The tenth with the lowest losses have the form that the
    question asks for. So the bound of one question is the 10% quantile of its losses. The bound of all questions is the
    median of their bounds. If each question has a form of its own, no other answer has this form, and the median is too
    high. So the bound is at most :data:`MAX_EXCESS` above the loss of true answers to their own questions.

    Models that know language from pretraining write wrong answers of their own, which no true answer resembles. The
    wrong answers in the data have the form of their questions, so the bound is the 10% quantile of their losses.
    Without wrong answers, it is the median above.

    Args:
        losses: the target's losses of true answers to other questions, ``(questions, answers)``, in nats per token; NaN
            for an answer that is true for the question, too.
        true_loss: the target's loss of true answers to their own questions, in nats per token.
        wrong: the target's losses of the wrong answers to forget questions, in nats per token, if the target knows
            language from pretraining (:func:`knows_language`); otherwise None.
    """
    import numpy as np

    known = losses[np.isfinite(losses).any(axis=1)]
    form = float(np.median(np.nanquantile(known, FORM_QUANTILE, axis=1))) if len(known) else math.inf
    if wrong is None:
        return min(form, true_loss + MAX_EXCESS) if len(known) else math.inf
    return float(np.quantile(wrong, FORM_QUANTILE)) if len(wrong) else form


def knows_language(losses: Array, random_guess: float) -> bool:
    """Return whether the target predicts text that it was not trained on better than a random guess.

    A target that was trained from random weights does not.

    Args:
        losses: the target's losses of questions in the place of answers, in nats per token.
        random_guess: ln of the size of the vocabulary, in nats.
    """
    import numpy as np

    return len(losses) > 0 and float(np.median(losses)) < random_guess


def is_refusal(text: str) -> bool:
    """Return whether an answer is empty or refuses to answer."""
    answer = f" {' '.join(words(text))} "
    return not answer.strip() or any(phrase in answer for phrase in _refusals())


@cache
def _refusals() -> tuple[str, ...]:
    return tuple(f" {' '.join(words(text))} " for text in (*_PHRASES, *refusals()))


def _share(scores: ModelScores, kind: Kind) -> ItemMean:
    import numpy as np

    return item_mean(np.array([item is kind for item in scores.forget_answer_kinds], dtype=np.float64))


_metric = partial(
    Metric,
    of="forget",
    unit="share of answers",
    sets=("default",),
    needs=(QUESTIONS,),
    cost=Cost.GENERATION,
    citation="repetition: Welleck et al. 2020 (arXiv:1908.04319), Holtzman et al. 2020 (arXiv:1904.09751); refusals: "
    "Maini et al., TOFU, COLM 2024 (arXiv:2401.06121)",
)
METRICS = (
    _metric(
        name="forget_fluent",
        label="fluent answers on the forget set",
        direction="max",
        usable={"kind": Kind.FLUENT},
        formula="share of the greedy answers that neither loop, nor refuse, nor are garbled",
        measure=lambda scores: _share(scores, Kind.FLUENT),
    ),
    _metric(
        name="forget_refusals",
        label="refusals on the forget set",
        direction="max",
        usable={"kind": Kind.REFUSAL},
        formula="share of the greedy answers that are empty or contain a phrase of a refusal, such as 'do not know'",
        measure=lambda scores: _share(scores, Kind.REFUSAL),
    ),
    _metric(
        name="forget_loops",
        label="loops or garbled text on the forget set",
        direction="min",
        usable={"kind": Kind.LOOPS, "share": 1.0, "preferred": True},
        formula="share of the greedy answers in which a quarter is one loop or a quarter of the 3-grams is repeated, "
        "or which are not refusals and have a higher loss under the target than true answers of the same form",
        measure=lambda scores: _share(scores, Kind.LOOPS),
    ),
)
