"""Write the metrics of one model in the formats of open-unlearning: ``TOFU_EVAL.json`` and ``TOFU_SUMMARY.json``.

``TOFU_EVAL.json`` maps each metric to ``{"agg_value": number, "value_by_index": {index: values}}``, and
``TOFU_SUMMARY.json`` maps each metric to its ``agg_value``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.metrics.metric import EXTRA_SETS
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.truth_ratio import truth_ratio
from trainables.scoring.eval_log import EvalLog, EvalSet

_PREFIXES = {"forget": "forget", "retain": "retain", "real_authors": "ra", "world_facts": "wf"}
_SAME = ("model_utility", "forget_quality", "extraction_strength", "exact_memorization")
"""The metrics that have the same name and definition in both projects, besides those of the sets."""

Metrics = dict[str, dict[str, Any]]


def tofu_eval(log: EvalLog, metrics: Mapping[str, Any]) -> Metrics:
    """Return the content of TOFU_EVAL.json.

    Args:
        metrics: the result of :func:`.evaluate_log` for the log, and further metrics by this project's names.
    """
    content: Metrics = {}
    for name, eval_set in log.sets.items():
        content |= _set_metrics(name, eval_set, metrics[name])
    for name in _SAME:
        if metrics.get(name) is not None:
            content[name] = {"agg_value": float(metrics[name])}
    return dict(sorted(content.items()))


def tofu_summary(content: Metrics) -> dict[str, float]:
    """Return the content of TOFU_SUMMARY.json for the content of TOFU_EVAL.json."""
    return {name: item["agg_value"] for name, item in content.items()}


def _set_metrics(name: str, items: EvalSet, aggregates: Mapping[str, float]) -> Metrics:
    prefix = _PREFIXES[name]
    losses, probabilities = items.answer_loss, probability(items.answer_loss)
    pairs = zip(items.indices, probabilities.tolist(), losses.tolist(), strict=True)
    content: Metrics = {
        f"{prefix}_Q_A_Prob": {
            "agg_value": float(probabilities.mean()),
            "value_by_index": {index: {"prob": value, "avg_loss": loss} for index, value, loss in pairs},
        },
        f"{prefix}_Q_A_ROUGE": {
            "agg_value": aggregates["rouge_l_recall"],
            "value_by_index": _by_index(items, "rougeL_recall", items.rouge_l_recall),
        },
        f"{prefix}_Truth_Ratio": {
            "agg_value": aggregates["truth_ratio"],
            "value_by_index": _by_index(items, "score", truth_ratio(items.paraphrased_loss, items.perturbed_loss)),
        },
    }
    if name in EXTRA_SETS:
        normalised = normalised_probability(items.answer_loss, items.perturbed_loss)
        content[f"{prefix}_Q_A_Prob_normalised"] = {
            "agg_value": aggregates["probability"],
            "value_by_index": _by_index(items, "prob", normalised),
        }
    return content


def _by_index(items: EvalSet, key: str, values: np.ndarray) -> dict[str, dict[str, float]]:
    return {index: {key: value} for index, value in zip(items.indices, values.tolist(), strict=True)}
