"""Read the values of the items of each model from the folder items/ of a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

Parts = Sequence[Mapping[str, Sequence[float]]]
"""The values of the items of one metric: the entry ``scores.METRIC`` of a per-item log."""

_SET_NAMES = {
    "eval_log_forget.json": "forget",
    "eval_log.json": "retain",
    "eval_real_author_wo_options.json": "real_authors",
    "eval_real_world_wo_options.json": "world_facts",
}
"""The evaluation sets whose keys in a log are those of the TOFU authors."""
OWN_QUESTIONS = "questions/"
"""The beginning of the key of each question set of the user. The name of the set follows."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A model's generated answer to a question.

    Attributes:
        truth: the answer in the data.
        true_facts, told_facts: where ``truth`` has its key facts, and where ``text`` tells them, as ranges of
            :func:`~search_spaces.common.words.pieces`; empty in a log without the metric fact recall.
    """

    prompt: str
    text: str
    truth: str
    true_facts: Sequence[Sequence[int]] = ()
    told_facts: Sequence[Sequence[int]] = ()


Answers = Mapping[tuple[str, str], StoredAnswer]
"""The answers by evaluation set and number of the question. A set of the user is named ``questions/NAME``."""


def item_scores(rows: pd.DataFrame) -> list[Mapping[str, Parts]]:
    """Return the values of the items by metric, for each row of ``TrialTable.models``.

    The mapping is empty for a model without a per-item log.
    """
    if "folder" not in rows:
        return [{} for _ in range(len(rows))]
    return [
        _read(_path(folder, checkpoint)).get("scores", {})
        for folder, checkpoint in zip(rows["folder"], rows["checkpoint"], strict=True)
    ]


def model_answers(row: pd.Series) -> Answers:
    """Return the stored answers of the model in a row of ``TrialTable.models``; empty without stored answers."""
    return _answers(_path(row.get("folder"), row.get("checkpoint")))


def reference_answers(row: pd.Series, name: Literal["target", "never-saw"]) -> Answers:
    """Return the answers of the target of a model, or of the model that never saw the target's forget set."""
    folder, key = row.get("folder"), row.get("target_key")
    return _answers(Path(folder) / "items" / f"{name}-{key}.json" if folder else None)


def _path(folder: str | None, checkpoint: str | None) -> Path | None:
    """Return the path of a model's log; None if the model has no checkpoint in a sweep's folder."""
    return Path(folder) / "items" / f"{Path(checkpoint).name}.json" if folder and checkpoint else None


def _read(path: Path | None) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path else {}
    except (OSError, ValueError):
        return {}


def _answers(path: Path | None) -> Answers:
    answers = {}
    for key, log in _read(path).items():
        true_facts, told_facts = log.get("true_facts", {}), log.get("told_facts", {})
        for number, (prompt, text, truth) in log.get("generated_text", {}).items():
            answers[_SET_NAMES.get(key, key), number] = StoredAnswer(
                prompt, text, truth, true_facts.get(number, ()), told_facts.get(number, ())
            )
    return answers
