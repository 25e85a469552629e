"""Fact recall: the share of a reference answer's key facts that a generated answer tells.

ROUGE-L recall counts all words of the reference answer, so a fluent answer without any of the facts scores above 0.
Fact recall counts only :mod:`key facts <trainables.metrics.key_facts>`. An answer tells a fact if it contains the
fact's words in order, without a gap. Inflected ASCII words count as the same word. Limitations:

- Where the fact stands does not matter, so a list of words can tell facts.
- A fact in other words, such as "06/02/1972" for "2 June 1972", is not found.
- A model that was never trained on the forget set can guess facts, such as a language. Its value is the level of
  forgotten facts, not 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from trainables.metrics.item_mean import ItemMean
from trainables.metrics.key_facts import Fact, is_told
from trainables.metrics.metric import EXTRA_SETS, QUESTIONS, Array, Cost, Metric, Need
from trainables.metrics.rouge import stemmed_words

if TYPE_CHECKING:
    from trainables.data.examples import UnlearningData
    from trainables.scoring.language import ModelScores


FORGOTTEN_SHARE, KEPT_SHARE = 0.1, 0.9
"""The bounds of the criterion ``usable``, as shares of the target's fact recall."""


def fact_recall(facts: Sequence[Sequence[Fact]], answers: Sequence[str]) -> Array:
    """Return the share of facts that each answer tells: float64 ``(n,)`` in [0, 1]; NaN for an item without facts."""
    import numpy as np

    return np.array([_share(told, answer) for told, answer in zip(facts, answers, strict=True)], dtype=np.float64)


def _share(facts: Sequence[Fact], answer: str) -> float:
    words = stemmed_words(answer)
    return sum(is_told(fact, words) for fact in facts) / len(facts) if facts else math.nan


def mean_recall(recalls: Array) -> ItemMean:
    """Return the mean over the items with facts; NaN if no item has facts."""
    import numpy as np

    has_facts = ~np.isnan(recalls)
    mean = recalls[has_facts].mean() if has_facts.any() else math.nan
    return ItemMean(mean, [(np.where(has_facts, recalls, 0.0), has_facts.astype(np.float64))])


def neighbour_sets(data: UnlearningData) -> tuple[str, ...]:
    """Return the names of the sets with questions that are neither forgotten nor evaluated as retained."""
    return tuple(name for name in ("neighbours", *EXTRA_SETS) if data.extra_eval.get(name))


def _neighbour_recall(scores: ModelScores) -> ItemMean:
    import numpy as np

    recalls = [scores.fact_recalls(name) for name in neighbour_sets(scores.evaluator.data)]
    return mean_recall(np.concatenate(recalls))


def _needs_set(name: str) -> Need:
    return Need(
        f"questions in other words (column paraphrased_question or table {name})",
        lambda data, retain_model: bool(data.extra_eval.get(name)),
    )


_NEIGHBOURS = Need(
    "questions about subjects near the forget set (table neighbours, or the sets real_authors and world_facts)",
    lambda data, retain_model: bool(neighbour_sets(data)),
)
FACTS_UNIT = "share of key facts"
FACTS_CITATION = (
    "exact match of short answers (Rajpurkar et al., SQuAD, EMNLP 2016, arXiv:1606.05250) for each key fact of a long "
    "answer"
)
_recall = partial(Metric, unit=FACTS_UNIT, cost=Cost.GENERATION, citation=FACTS_CITATION)


def _of_side(side: Literal["forget", "retain"], direction: Literal["min", "max"], items: str) -> tuple[Metric, Metric]:
    """Return the metrics of one side, with the questions of the data set and with the same questions in other words."""
    rephrased = f"{side}_rephrased"
    share = FORGOTTEN_SHARE if side == "forget" else KEPT_SHARE
    return (
        _recall(
            name=f"{side}_fact_recall",
            label=f"facts told of the {side} set",
            direction=direction,
            of=side,
            sets=("default", "facts"),
            needs=(QUESTIONS,),
            usable={"share": share},
            formula=f"share of key facts of the {side} set's answers that the greedy answers tell; mean over {items}",
            measure=lambda scores: mean_recall(scores.fact_recalls(side)),
        ),
        _recall(
            name=f"{side}_fact_recall_rephrased",
            label=f"facts told of the {side} set, asked in other words",
            direction=direction,
            of=side,
            sets=("default", "facts"),
            needs=(QUESTIONS, _needs_set(rephrased)),
            # The bound on forgotten facts refers to the trained words, because the target may know no other words.
            usable={"share": share, "of": "forget_fact_recall"} if side == "forget" else {"share": share},
            formula=f"as {side}_fact_recall, with the questions in other words",
            measure=lambda scores: mean_recall(scores.fact_recalls(rephrased)),
        ),
    )


METRICS = (
    *_of_side("forget", "min", "the questions"),
    *_of_side("retain", "max", "the questions of a sample of the retain set"),
    _recall(
        name="neighbour_fact_recall",
        label="facts told near the forget set",
        direction="max",
        of="retain",
        sets=("facts",),
        needs=(QUESTIONS, _NEIGHBOURS),
        usable={"share": KEPT_SHARE},
        formula="as retain_fact_recall, on questions near the forget set that are in no other evaluation set: TOFU's "
        "real authors and world facts, or the data set's own table neighbours",
        measure=_neighbour_recall,
    ),
)
