"""Train on retained rows only, as a user who fine-tunes the model does: do forgotten facts come back?"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from trainables.attacks.attack import FACTS, Attack, Effort
from trainables.attacks.training import curve, curve_columns, curve_metrics
from trainables.metrics.metric import QUESTIONS

if TYPE_CHECKING:
    from trainables.data.examples import Example
    from trainables.scoring.language import ModelScores

_NAME_OR_NUMBER = re.compile(r"(?<=\s)[A-Z][\w'-]*|\d+")


def shape(question: str) -> frozenset[tuple[str, str]]:
    """Return the pairs of neighbouring words of a question, with ``_`` for names and numbers."""
    words = _NAME_OR_NUMBER.sub("_", question).lower().split()
    return frozenset(pairwise(words))


def same_syntax(retain: Sequence[Example], forget: Sequence[Example], count: int) -> list[Example]:
    """Return the retained rows whose questions are most similar in shape to a forget question.

    The similarity of two shapes is their Jaccard index: the number of common pairs per pair in either.
    """
    shapes = {shape(item.question) for item in forget}

    def similarity(item: Example) -> float:
        own = shape(item.question)
        return max(len(own & other) / max(1, len(own | other)) for other in shapes)

    return sorted(retain, key=similarity, reverse=True)[:count]  # rows that are equally similar keep their order


def _run(scores: ModelScores) -> dict[str, float]:
    data = scores.evaluator.data
    count = min(len(data.forget), len(data.retain))
    rows = {
        "benign": random.Random(0).sample(data.retain, count),
        "benign_syntax": same_syntax(data.retain, data.forget, count),
    }
    values: dict[str, float] = {}
    for ending, examples in rows.items():
        values |= curve_columns(
            curve(scores, examples), ending, range(len(scores.evaluator.questions["forget"].questions))
        )
    return values


ATTACK = Attack(
    name="benign",
    formula="train the model for 4 epochs on as many retained rows as the forget set has, with AdamW, batches of 8 and "
    "a constant rate (--relearn-lr): on random rows (..._after_benign) and on the rows whose questions have the syntax "
    "of forget questions (..._after_benign_syntax). The columns have the highest value after epochs 1, 2 and 4, and "
    "..._1, ..._2, ..._4 have the points",
    citation="rows of the same syntax drive relearning more than the topic does: arXiv:2602.03379; retain rows: "
    "Siddiqui et al., From Dormant to Deleted, 2025 (arXiv:2505.22310)",
    cost="training as many rows as the forget set has for 4 epochs, and 3 times the generation of the forget answers; "
    "all twice",
    effort=Effort(forget_losses=30.0, forget_answers=12.0),
    endings={
        "benign": "after training on retained rows",
        "benign_syntax": "after training on retained rows of the same syntax",
    },
    attacked=FACTS,
    own=(
        *curve_metrics("benign", "training on retained rows"),
        *curve_metrics("benign_syntax", "training on retained rows of the same syntax"),
    ),
    needs=(QUESTIONS,),
    options="--relearn-lr",
    run=_run,
)
