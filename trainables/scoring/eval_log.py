"""Read, check and aggregate evaluation logs in the format of the TOFU authors (``eval_log_aggregated.json``).

A log is a JSON object with one object per evaluation set. This object has columns with one value per item. The
aggregates are those of TOFU's script ``aggregate_eval_stat.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces.common.messages import some_of
from trainables.metrics.forget_quality import forget_quality
from trainables.metrics.metric import EXTRA_SETS, Array
from trainables.metrics.model_utility import Scores, model_utility
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.repetition import longest_loop, repetition
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import forget_truth_ratio, log_truth_ratio, retain_truth_ratio, truth_ratio

LOG_KEYS = {
    "retain": "eval_log.json",
    "real_authors": "eval_real_author_wo_options.json",
    "world_facts": "eval_real_world_wo_options.json",
    "forget": "eval_log_forget.json",
}
_LOSSES = ("avg_gt_loss", "avg_paraphrased_loss", "average_perturb_loss")


class EvalLogError(ValueError):
    """An evaluation log cannot be read or is malformed. The message is for the user."""


@dataclass(frozen=True, eq=False)
class EvalSet:
    """One evaluation set with n items.

    All losses are in nats per token. ``answer_loss``, ``paraphrased_loss`` and ``rouge_l_recall`` are ``(n,)``.
    ``perturbed_loss`` has one array per item. ``answers`` is None if the log has no texts.
    """

    indices: tuple[str, ...]
    answer_loss: Array
    paraphrased_loss: Array
    perturbed_loss: tuple[Array, ...]
    rouge_l_recall: Array
    answers: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class EvalLog:
    """The four evaluation sets of one model, by name."""

    path: Path
    sets: Mapping[str, EvalSet]


def read_eval_log(path: str | PathLike[str]) -> EvalLog:
    """Read the log at ``path`` and check every value.

    A column is a list, or an object keyed by item index. Unknown evaluation sets and columns are ignored. If an
    evaluation set has the column ``generated_text``, the column ``rougeL_recall`` is optional.

    Raises:
        EvalLogError: the log is unreadable, incomplete or malformed. The message names the position in the file.
    """
    path = Path(path)
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvalLogError(f"{path} cannot be read as a JSON file: {error}") from error
    _require(str(path), log, LOG_KEYS.values())
    return EvalLog(path, {name: _read_set(f"{path}: {key}", log[key]) for name, key in LOG_KEYS.items()})


def evaluate_log(log: EvalLog, retain_log: EvalLog | None = None) -> dict[str, Any]:
    """Return the aggregates of a log as JSON values.

    The keys ``retain``, ``real_authors``, ``world_facts`` and ``forget`` hold ``probability``, ``rouge_l_recall``,
    ``truth_ratio``, ``repetition`` and ``longest_loop``. The values of ``repetition`` and ``longest_loop`` are None if
    the log has no texts.

    ``model_utility`` is the harmonic mean of ``probability``, ``rouge_l_recall`` and ``truth_ratio`` on all sets except
    ``forget``. ``forget_quality`` (a p-value) and ``forget_quality_statistic`` compare the log with ``retain_log``, the
    log of the retain model. Without ``retain_log``, both are None.

    Raises:
        EvalLogError: the forget items of the two logs differ.
    """
    scores: dict[str, Scores] = {}
    fluency: dict[str, dict[str, float | None]] = {}
    for name, eval_set in log.sets.items():
        if name in EXTRA_SETS:
            probabilities = normalised_probability(eval_set.answer_loss, eval_set.perturbed_loss)
        else:
            probabilities = probability(eval_set.answer_loss)
        ratios = truth_ratio(eval_set.paraphrased_loss, eval_set.perturbed_loss)
        ratio = forget_truth_ratio(ratios) if name == "forget" else retain_truth_ratio(ratios)
        scores[name] = Scores(float(probabilities.mean()), float(eval_set.rouge_l_recall.mean()), ratio)
        if eval_set.answers is None:
            fluency[name] = {"repetition": None, "longest_loop": None}
        else:
            fluency[name] = {
                "repetition": float(repetition(eval_set.answers).mean()),
                "longest_loop": float(longest_loop(eval_set.answers).mean()),
            }
    p_value = statistic = None
    if retain_log is not None:
        forget, reference = log.sets["forget"], retain_log.sets["forget"]
        if {*forget.indices} != {*reference.indices}:
            raise EvalLogError(
                f"{retain_log.path} has other forget items ({len(reference.indices)}) than {log.path} "
                f"({len(forget.indices)}); forget quality needs the log of a retain model on the same forget set"
            )
        log_ratios = log_truth_ratio(forget.paraphrased_loss, forget.perturbed_loss)
        reference_log_ratios = log_truth_ratio(reference.paraphrased_loss, reference.perturbed_loss)
        p_value, statistic = forget_quality(log_ratios, reference_log_ratios)
    utility_scores = {name: aggregates for name, aggregates in scores.items() if name != "forget"}
    return {
        "model_utility": model_utility(**utility_scores),
        "forget_quality": p_value,
        "forget_quality_statistic": statistic,
        **{name: aggregates._asdict() | fluency[name] for name, aggregates in scores.items()},
    }


def _read_set(where: str, value: Any) -> EvalSet:
    has_texts = isinstance(value, dict) and "generated_text" in value
    answer_column = "generated_text" if has_texts else "rougeL_recall"
    _require(where, value, (*_LOSSES, answer_column))
    columns = {name: _column(f"{where}, {name}", value[name], read) for name, read in _READERS.items() if name in value}
    indices = tuple(columns["avg_gt_loss"])
    for name, column in columns.items():
        if differing := sorted(column.keys() ^ {*indices}):
            raise EvalLogError(
                f"{where}, {name}: expected the same items as in avg_gt_loss; {len(differing)} items are in only "
                f"one of the two columns: {some_of(differing)}"
            )
    ordered = {name: [column[index] for index in indices] for name, column in columns.items()}
    texts = ordered.get("generated_text", [])
    answers = tuple(answer for _, answer, _ in texts)
    if "rougeL_recall" in ordered:
        recalls = np.array(ordered["rougeL_recall"])
    else:
        recalls = rouge_l_recall([reference for _, _, reference in texts], answers)
    return EvalSet(
        indices=indices,
        answer_loss=np.array(ordered["avg_gt_loss"]),
        paraphrased_loss=np.array(ordered["avg_paraphrased_loss"]),
        perturbed_loss=tuple(np.array(losses) for losses in ordered["average_perturb_loss"]),
        rouge_l_recall=recalls,
        answers=answers if has_texts else None,
    )


def _require(where: str, value: Any, keys: Collection[str]) -> None:
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing:
        raise EvalLogError(
            f"{where}: missing {', '.join(missing)}; expected an object with the keys {', '.join(keys)}, got "
            f"{_shown(value)}"
        )


def _column(where: str, values: object, read: Callable[[str, object], Any]) -> dict[str, Any]:
    if isinstance(values, list):
        values = {str(position): value for position, value in enumerate(values)}
    if not isinstance(values, dict) or not values:
        raise EvalLogError(f"{where}: expected the values of at least one item, got {_shown(values)}")
    return {index: read(f"{where}, item {index}", value) for index, value in values.items()}


def _number(where: str, value: object, *, low: float = -sys.float_info.max, high: float = sys.float_info.max) -> float:
    if not isinstance(value, int | float) or not low <= value <= high:
        raise EvalLogError(f"{where}: expected a number from {low:g} to {high:g}, got {_shown(value)}")
    return float(value)


def _numbers(where: str, value: object) -> list[float]:
    return list(_column(where, value, _number).values())


def _texts(where: str, value: object) -> list[str]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(text, str) for text in value):
        raise EvalLogError(f"{where}: expected three texts (question, answer, reference), got {_shown(value)}")
    return value


_READERS: dict[str, Callable[[str, object], Any]] = {
    "avg_gt_loss": _number,
    "avg_paraphrased_loss": _number,
    "average_perturb_loss": _numbers,
    "rougeL_recall": partial(_number, low=0.0, high=1.0),
    "generated_text": _texts,
}


def _shown(value: object) -> str:
    return json.dumps(value)[:60]
