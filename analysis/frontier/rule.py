"""Compile the choice of a model to a description that the report page's script evaluates for other thresholds.

Moving a threshold changes which models meet it, but not which of two models is better. So the description has the
thresholds and scores of the requirements, and all comparisons of two models
(:class:`analysis.frontier.ranking.Ranking`). With them, ``analysis/report/templates/rule.js`` repeats the steps of
:func:`analysis.frontier.choice.choose_model`. A threshold that the user moves is an absolute bound for all models,
whatever their target.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pandas as pd

from analysis.frontier.choice import Choice, configurations_of
from analysis.frontier.criterion import STATED, Criterion, TargetScores
from analysis.frontier.pareto_json import json_value
from analysis.frontier.ranking import ASPECTS, beats
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import TrialTable, numbers

MAX_MODELS = 1000
"""The maximum number of models for which the page can repeat the choice, because it has all pairs of them."""


def compiled_rule(choice: Choice, table: TrialTable) -> dict[str, Any] | None:
    """Return the rule as JSON values; None without requirements, or for more than :data:`MAX_MODELS` models.

    The result has the keys:

    - ``criterion`` (its name) and ``faults`` (whether a metric of the criterion is at fault, so no model is good).
    - ``requirements``: ``column``, ``sign``, ``role``, ``preferred``, ``stated``, ``decisive``, ``range`` (the bounds
      of the column), and the ``values`` of the n models.
    - ``targets``: for each distinct target, its ``scores`` and the ``bounds`` of the requirements. ``target`` has the
      index of each model's target.
    - ``beats``: whether model A beats model B, as n * n bits, row by row in base64. ``sums`` decides cycles.
    - ``keep``, ``preferred`` and ``forget``: for each score about the aspect, the ``costs``, and as bits whether model
      B is within noise of the best model A.
    - ``change`` and ``distance``: the sort keys of the last two steps; null stands for infinity.
    - ``configuration``: the number of each model's configuration. ``fresh``: the fresh runs of each model (``model``)
      that has some: ``finished``, ``target``, and ``values`` (a list per requirement).
    """
    rows, criterion = choice.rows, choice.criterion
    if not criterion.requirements or not 0 < len(rows) <= MAX_MODELS:
        return None
    ranking, every = choice.ranking, range(len(rows))
    distance = ranking.distance
    scores, margins = ranking.differences(every)
    fresh = _fresh_runs(rows, table.fresh)
    targets = criterion.targets_of(pd.concat([rows[_keys(rows)], *(runs[_keys(runs)] for _, runs in fresh)]))
    distinct = {id(target): target for target in targets}
    index_of = {key: i for i, key in enumerate(distinct)}
    target_indices = [index_of[id(target)] for target in targets]
    ends = np.cumsum([len(rows), *(len(runs) for _, runs in fresh)])
    rule: dict[str, object] = {
        "criterion": criterion.name,
        "faults": bool(criterion.faults),
        "requirements": [
            {
                "column": item.column,
                "sign": item.limit.sign,
                "role": str(item.role),
                "preferred": item.preferred,
                "stated": item.source == STATED,
                "decisive": item.decisive,
                "range": criterion.columns[item.column].bounds,
                "values": numbers(rows, item.column).tolist(),
            }
            for item in criterion.requirements
        ],
        "targets": [_target(target, criterion) for target in distinct.values()],
        "target": target_indices[: len(rows)],
        "beats": _bits(beats(scores, margins)),
        "sums": np.nansum(scores, axis=0).tolist(),
        **{aspect: [_near(*item) for item in ranking.scores_about(aspect, every)] for aspect in ASPECTS},
        "change": [ranking.change(i)[: -len(distance[i])] for i in every],
        "distance": distance,
        "configuration": configurations_of(rows, table),
        "fresh": [
            {
                "model": index,
                "finished": (runs["status"] == "finished").tolist(),
                "target": target_indices[start:end],
                "values": [numbers(runs, item.column).tolist() for item in criterion.requirements],
            }
            for (index, runs), start, end in zip(fresh, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ],
    }
    values: dict[str, Any] = json_value(rule)  # type: ignore[assignment]
    return values


def _keys(rows: pd.DataFrame) -> list[str]:
    return [name for name in ("sweep", "seed") if name in rows]


def _target(target: TargetScores, criterion: Criterion) -> dict[str, object]:
    bounds = [item.bound(target) for item in criterion.requirements]
    return {
        "scores": [target.values.get(item.column) for item in criterion.requirements],
        "bounds": [None if bound is None else bound.bound for bound in bounds],
    }


def _near(costs: np.ndarray[Any, Any], noise: np.ndarray[Any, Any]) -> dict[str, object]:
    return {"costs": costs.tolist(), "near": _bits(costs[None, :] <= costs[:, None] + noise)}


def _bits(matrix: Mask) -> str:
    return base64.b64encode(np.packbits(matrix, bitorder="little").tobytes()).decode()


def _fresh_runs(rows: pd.DataFrame, fresh: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """Return the position of each model with fresh runs, and its runs."""
    if fresh.empty:
        return []
    position = {
        (str(trial_id), float(epoch)): i
        for i, (trial_id, epoch) in enumerate(zip(rows["trial_id"], numbers(rows, "epoch"), strict=True))
    }
    groups = fresh.groupby(["confirms", "stop_epoch"], sort=False)
    found = ((position.get((str(trial), float(str(epoch)))), runs) for (trial, epoch), runs in groups)
    return [(index, runs) for index, runs in found if index is not None]
