"""Read the values of the items of each model from the folder items/ of a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

Parts = Sequence[Mapping[str, Sequence[float]]]
"""The values of the items of one metric: the entry ``scores.METRIC`` of a per-item log."""


def item_scores(rows: pd.DataFrame) -> list[Mapping[str, Parts]]:
    """Return the values of the items by metric, for each row of ``TrialTable.models``.

    The mapping is empty for a model without a per-item log, and for a log of an older version.
    """
    if "folder" not in rows:
        return [{} for _ in range(len(rows))]
    return [
        _scores(Path(folder) / "items" / f"{Path(checkpoint).name}.json") if folder and checkpoint else {}
        for folder, checkpoint in zip(rows["folder"], rows["checkpoint"], strict=True)
    ]


def _scores(path: Path) -> Mapping[str, Parts]:
    try:
        log: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    scores: Mapping[str, Parts] = log.get("scores", {})
    return scores
