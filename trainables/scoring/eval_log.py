"""Read, check and aggregate evaluation logs in TOFU's format. A log holds a model's losses and texts per item.

The format is that of the TOFU authors (``locuslab/tofu``, ``eval_log_aggregated.json``): an object with four parts,
each with columns of per-item values, keyed by item index. The aggregates are those of TOFU's script
``aggregate_eval_stat.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from trainables.metrics.forget_quality import forget_quality
from trainables.metrics.items import Array
from trainables.metrics.model_utility import Scores, model_utility
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.repetition import longest_loop, repetition
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import forget_truth_ratio, log_truth_ratio, retain_truth_ratio, truth_ratio

PARTS = {
    "retain": "eval_log.json",
    "real_authors": "eval_real_author_wo_options.json",
    "world_facts": "eval_real_world_wo_options.json",
    "forget": "eval_log_forget.json",
}
_LOSSES = ("avg_gt_loss", "avg_paraphrased_loss", "average_perturb_loss")
_NAMED = 5  # an error names this many items or keys and counts the rest


class EvalLogError(ValueError):
    """An evaluation log cannot be read or does not have TOFU's format; the message is for the user."""


@dataclass(frozen=True, eq=False)
class EvalPart:
    """One evaluation set with n items, in the order of their indices.

    The losses are in nats per token: ``answer_loss`` and ``paraphrased_loss`` are ``(n,)``, ``perturbed_loss`` has n
    rows. ``rouge_l_recall`` ``(n,)`` is taken from the log or computed from its texts. ``answers`` are the n generated
    answers; None if the log has no texts.
    """

    indices: tuple[str, ...]
    answer_loss: Array
    paraphrased_loss: Array
    perturbed_loss: tuple[Array, ...]
    rouge_l_recall: Array
    answers: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class EvalLog:
    """The four evaluation sets of one model, read from ``path``."""

    path: Path
    retain: EvalPart
    real_authors: EvalPart
    world_facts: EvalPart
    forget: EvalPart


def read_eval_log(path: str | PathLike[str]) -> EvalLog:
    """Read the log at ``path`` and check every value.

    A column may be a list, or an object keyed by item index in any order. The perturbed losses of an item may also have
    either form, and their number may differ between items. Other parts and columns are ignored.

    Raises:
        EvalLogError: the file is unreadable, parts or columns are missing, columns have different items, or values are
            not finite numbers or not recalls. The message names the file and the position in it.
    """
    path = Path(path)
    log = _parse(path)
    missing = [part for part in PARTS.values() if part not in log]
    if missing:
        raise EvalLogError(
            f"{path}: no {_quoted(missing)}; expected a TOFU evaluation log with the parts {_quoted(PARTS.values())}, "
            f"found {_quoted(log) or 'nothing'}"
        )
    return EvalLog(path, **{name: _read_part(f"{path}: {part}", log[part]) for name, part in PARTS.items()})


def evaluate_log(log: EvalLog, retain_log: EvalLog | None = None) -> dict[str, Any]:
    """Return the aggregates of a log as JSON values.

    ``retain``, ``real_authors``, ``world_facts`` and ``forget`` each hold ``probability``, ``rouge_l_recall`` and
    ``truth_ratio``, and ``repetition`` and ``longest_loop`` of the generated answers (None if the log has no texts).
    ``model_utility`` is the harmonic mean of the nine scores of retain, real_authors and world_facts.
    ``forget_quality`` (a p-value) and ``forget_quality_statistic`` compare the forget set's truth ratios with those in
    ``retain_log``, the log of a model trained without the forget set; they are None without ``retain_log``.

    Raises:
        EvalLogError: the forget items of the two logs differ, so a test would compare the items instead of the models.
    """
    outside = {"retain": _scores(log.retain, probability(log.retain.answer_loss), retain_truth_ratio)}
    for name, part in (("real_authors", log.real_authors), ("world_facts", log.world_facts)):
        right_among_choices = normalised_probability(part.answer_loss, part.perturbed_loss)
        outside[name] = _scores(part, right_among_choices, retain_truth_ratio)
    scores = outside | {"forget": _scores(log.forget, probability(log.forget.answer_loss), forget_truth_ratio)}
    p_value = statistic = None
    if retain_log is not None:
        if log.forget.indices != retain_log.forget.indices:
            raise EvalLogError(
                f"{retain_log.path}: {len(retain_log.forget.indices)} forget items, not the "
                f"{len(log.forget.indices)} of {log.path}: forget quality needs the log of a retain model on the same "
                "forget set"
            )
        p_value, statistic = forget_quality(_log_ratios(log.forget), _log_ratios(retain_log.forget))
    return {
        "model_utility": model_utility(**outside),
        "forget_quality": p_value,
        "forget_quality_statistic": statistic,
        **{name: found._asdict() | _fluency(getattr(log, name)) for name, found in scores.items()},
    }


def _scores(part: EvalPart, probabilities: Array, aggregate: Callable[[Array], float]) -> Scores:
    ratios = truth_ratio(part.paraphrased_loss, part.perturbed_loss)
    return Scores(float(probabilities.mean()), float(part.rouge_l_recall.mean()), aggregate(ratios))


def _fluency(part: EvalPart) -> dict[str, float | None]:
    measured = {"repetition": repetition, "longest_loop": longest_loop}
    return {name: None if part.answers is None else float(of(part.answers).mean()) for name, of in measured.items()}


def _log_ratios(part: EvalPart) -> Array:
    return log_truth_ratio(part.paraphrased_loss, part.perturbed_loss)


def _parse(path: Path) -> dict[str, Any]:
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvalLogError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise EvalLogError(f"{path}: not JSON: {error}") from error
    if not isinstance(log, dict):
        raise EvalLogError(f"{path}: expected a JSON object of evaluation parts, got {_shown(log)}")
    return log


def _read_part(where: str, part: object) -> EvalPart:
    if not isinstance(part, dict):
        raise EvalLogError(f"{where}: expected an object of columns, got {_shown(part)}")
    missing = [name for name in _LOSSES if name not in part]
    if "rougeL_recall" not in part and "generated_text" not in part:
        missing.append("rougeL_recall")
    if missing:
        raise EvalLogError(
            f"{where}: no {_quoted(missing)}; expected per-item values of {_quoted(_LOSSES)} and 'rougeL_recall' "
            "(or 'generated_text', from which it is computed)"
        )
    columns = {name: _column(f"{where}, {name}", part[name], read) for name, read in _READERS.items() if name in part}
    items = columns["avg_gt_loss"].keys()
    for name, column in columns.items():
        for what, others in (("without", items - column.keys()), ("but also", column.keys() - items)):
            if others:
                raise EvalLogError(
                    f"{where}, {name}: expected the items of avg_gt_loss; "
                    f"{what} {_quoted(sorted(others, key=_by_number))}"
                )
    indices = tuple(sorted(items, key=_by_number))
    ordered = {name: [column[index] for index in indices] for name, column in columns.items()}
    texts = ordered.get("generated_text")
    answers = None if texts is None else tuple(generated for _, generated, _ in texts)
    return EvalPart(
        indices=indices,
        answer_loss=np.array(ordered["avg_gt_loss"]),
        paraphrased_loss=np.array(ordered["avg_paraphrased_loss"]),
        perturbed_loss=tuple(map(np.array, ordered["average_perturb_loss"])),
        rouge_l_recall=np.array(ordered["rougeL_recall"])
        if "rougeL_recall" in ordered
        else rouge_l_recall([reference for _, _, reference in ordered["generated_text"]], answers or ()),
        answers=answers,
    )


def _by_number(index: str) -> tuple[bool, int, str]:
    return not index.isdecimal(), len(index), index


def _column(where: str, values: object, read: Callable[[str, object], Any]) -> dict[str, Any]:
    """Read the value of each item; a list has the items 0, 1, ..."""
    if isinstance(values, list):
        values = {str(position): value for position, value in enumerate(values)}
    if not isinstance(values, dict) or not values:
        raise EvalLogError(f"{where}: expected the values of at least one item, got {_shown(values)}")
    return {index: read(f"{where}, item {index}", value) for index, value in values.items()}


def _number(where: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # integers in JSON can be arbitrarily large
        number = math.inf
    if not math.isfinite(number):
        raise EvalLogError(f"{where}: expected a finite number, got {_shown(value)}")
    return number


def _numbers(where: str, value: object) -> list[float]:
    return list(_column(where, value, _number).values())


def _recall(where: str, value: object) -> float:
    recall = _number(where, value)
    if not 0.0 <= recall <= 1.0:
        raise EvalLogError(f"{where}: expected a recall in [0, 1], got {recall}")
    return recall


def _texts(where: str, value: object) -> list[str]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(text, str) for text in value):
        raise EvalLogError(f"{where}: expected three texts (question, answer, reference), got {_shown(value)}")
    return value


_READERS: dict[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(_LOSSES[:2], _number),
    _LOSSES[2]: _numbers,
    "rougeL_recall": _recall,
    "generated_text": _texts,
}


def _quoted(names: Iterable[str]) -> str:
    found = list(names)
    shown = ", ".join(f"'{name}'" for name in found[:_NAMED])
    return shown if len(found) <= _NAMED else f"{shown} and {len(found) - _NAMED} more"


def _shown(value: object) -> str:
    """Return the beginning of a value as JSON."""
    return f"{json.dumps(value):.60}"
