"""Write the per-item values of a model's metrics to a file, in the format of the TOFU authors' evaluation logs.

The file has only the columns that were computed for the measured metrics. If the file has all four evaluation sets of
TOFU, ``evaluate --eval-log`` can read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from search_spaces.common.durable import write_json
from trainables.metrics.key_facts import told_pieces
from trainables.metrics.metric import Array
from trainables.metrics.repetition import longest_loop, repetition
from trainables.scoring.base import ItemLog
from trainables.scoring.eval_log import LOG_KEYS

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores

_FURTHER_KEYS = {name: name for name in ("forget_rephrased", "retain_rephrased", "neighbours")}
"""The evaluation sets that the published logs do not have, and their keys."""

OWN_QUESTIONS = "questions/"
"""The beginning of the key of each question set of the user. The name of the set follows."""


def item_log(scores: ModelScores) -> ItemLog:
    """Return all per-item values that have been computed for a model, by evaluation set and column.

    ``true_facts`` and ``told_facts`` have ranges of pieces (:func:`~trainables.metrics.key_facts.told_pieces`): the key
    facts in the true answer, and the same facts in the generated answer.

    In addition to the evaluation sets, ``membership`` has the scores of membership inference attacks, and ``prompted``
    has the answers to the prompts of metrics that have their own prompts.
    """
    log: ItemLog = {}
    keys = LOG_KEYS | _FURTHER_KEYS
    own_keys = {name: f"{OWN_QUESTIONS}{name}" for name in scores.evaluator.data.own_sets}
    for set_name, key in (keys | own_keys).items():
        columns = _answer_columns(scores, set_name) | _choice_columns(scores, set_name)
        if columns:
            log[key] = columns
    prompted: dict[str, object] = {}
    for metric, prompted_set in scores.evaluator.prompted.items():
        if metric in scores.generated:
            prompts = scores.evaluator.scorer.decode(prompted_set.prompts)
            texts, recalls = scores.generated[metric]
            prompted[metric] = _generation_columns(prompts, prompted_set.references, texts, recalls)
    if prompted:
        log["prompted"] = prompted
    if scores.attacks:
        log["membership"] = {
            name: {"forget": by_index(forget_scores), "holdout": by_index(holdout_scores)}
            for name, (forget_scores, holdout_scores) in scores.attacks.items()
        }
    return log


def write_item_log(path: Path, log: Mapping[str, object]) -> None:
    """Write the log atomically. Values that are not finite become null."""
    write_json(path, log, indent=None)


def _answer_columns(scores: ModelScores, set_name: str) -> dict[str, object]:
    question_set = scores.evaluator.questions.get(set_name)
    if question_set is None:
        return {}
    columns: dict[str, object] = {}
    if question_set in scores.answers:
        losses = scores.answers[question_set]
        columns["avg_gt_loss"] = by_index(losses.totals / losses.counts)
        columns["gt_loss"] = by_index(losses.totals)
        columns["num_token_gt"] = by_index(losses.counts.astype(int))
    if set_name in scores.generated:
        prompts = [scores.evaluator.scorer.prompt_of(question) for question in question_set.questions]
        texts, recalls = scores.generated[set_name]
        columns |= _generation_columns(prompts, question_set.references, texts, recalls)
        if set_name in scores.evaluator.facts:
            facts = scores.evaluator.facts[set_name]
            columns["fact_recall"] = by_index(scores.fact_recalls(set_name))
            columns["true_facts"] = by_index(list(map(told_pieces, facts, question_set.references)))
            columns["told_facts"] = by_index(list(map(told_pieces, facts, texts)))
    return columns


def _generation_columns(
    prompts: Sequence[str], references: Sequence[str], texts: Sequence[str], recalls: Array
) -> dict[str, object]:
    rows = [list(row) for row in zip(prompts, texts, references, strict=True)]
    return {
        "generated_text": by_index(rows),
        "rougeL_recall": by_index(recalls),
        "repetition": by_index(repetition(texts)),
        "longest_loop": by_index(longest_loop(texts)),
    }


def _choice_columns(scores: ModelScores, set_name: str) -> dict[str, object]:
    if set_name not in scores.choices:
        return {}
    losses = scores.choices[set_name]
    items = scores.evaluator.choices[set_name].items
    return {
        "avg_paraphrased_loss": by_index(losses.paraphrased, items),
        "paraphrased_loss": by_index([row[0] for row in losses.totals], items),
        "num_token_paraphrased": by_index([int(row[0]) for row in losses.counts], items),
        "average_perturb_loss": by_index([row.tolist() for row in losses.perturbed], items),
        "perturb_loss": by_index([row[1:].tolist() for row in losses.totals], items),
        "num_token_perturb": by_index([row[1:].astype(int).tolist() for row in losses.counts], items),
        "truth_ratio": by_index(losses.truth_ratios, items),
    }


def by_index(values: Sequence[object] | np.ndarray, items: Sequence[int] | None = None) -> dict[str, object]:
    """Return a mapping from each index in ``items``, as text, to the value at the same position in ``values``.

    Without ``items``, the indices are 0, 1, 2, ...
    """
    plain_values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    indices = range(len(plain_values)) if items is None else items
    return {str(index): value for index, value in zip(indices, plain_values, strict=True)}
