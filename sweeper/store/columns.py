"""The columns of a sweep's tables, in order, and their descriptions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from search_spaces.common.fields import Field
from trainables import plugins
from trainables.auto_lr.step import UPDATE_COLUMNS
from trainables.methods import OPTIONS, option_names, parse_method
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, metrics_in
from trainables.spec import FIELDS


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that is neither a setting nor a metric. ``{item}`` in the unit stands for token or image."""

    name: str
    role: str
    label: str
    unit: str = ""


_IDS = (_Column("trial_id", "record", "trial"), _Column("spec_hash", "record", "hash of the settings"))
_STATUS = (
    _Column("status", "record", "status"),
    _Column("steps", "progress", "optimizer steps"),
    _Column("epochs_done", "progress", "epochs"),
)
_COSTS = (
    _Column("train_seconds", "cost", "training", "s"),
    _Column("eval_seconds", "cost", "evaluation", "s"),
    _Column("generation_seconds", "cost", "generation of answers", "s"),
    _Column("decision_seconds", "cost", "choice of the interpolation", "s"),
    _Column("wall_seconds", "cost", "wall clock", "s"),
    _Column("checkpoint", "record", "checkpoint"),
    _Column("error", "record", "error"),
    _Column("started_at", "record", "start time", "s since 1970"),
    _Column("first_step_at", "record", "time of the first step", "s since 1970"),
    _Column("ended_at", "record", "end time", "s since 1970"),
    _Column("worker", "record", "worker"),
    _Column("phase", "record", "phase"),
    _Column("confirms", "record", "trial whose configuration is trained again"),
    _Column("merges", "record", "trials and folders whose models are merged"),
    _Column("merge_scale", "record", "factor of the merged task vector"),
    _Column("merge_checkpoint", "record", "model from which the merged models of --finetuned started"),
    _Column("reused_from", "record", "reused from"),
    _Column("retried_with", "record", "memory settings after an out-of-memory error"),
    _Column("peak_gpu_gb", "cost", "peak GPU memory", "GB"),
    _Column("gpu_share", "record", "the trial's share of a GPU"),
    _Column("gpu_gb", "record", "memory of the GPU", "GB"),
)
_ENDS = (
    _Column("interpolation", "progress", "position between the target (0) and the last weights (1)"),
    _Column("steps_undone", "progress", "steps undone by restarts", "optimizer steps"),
    _Column("lr_updates", "progress", "AutoLR updates"),
    _Column("lr_updates_accepted", "progress", "AutoLR updates that chose a rate"),
)
_REPORTED = _Column("reported_at", "record", "time of the report", "s since 1970")
_STEPS = (_Column("step", "progress", "optimizer steps"), _Column("epoch", "progress", "epochs"))
_COURSE = (
    _Column("c_t", "course", "c_t, weight of the retain gradient"),
    _Column("grad_norm_retain", "course", "norm of the retain gradient"),
    _Column("grad_norm_forget", "course", "norm of the forget gradient"),
    _Column("grad_norm", "course", "norm of the combined gradient"),
    _Column("grad_cosine", "course", "cosine of the two gradients"),
    _Column("train_retain_loss", "course", "retain loss of the training batches", "nats per {item}"),
    _Column("train_forget_loss", "course", "forget loss of the training batches", "nats per {item}"),
    _Column("retain_loss_se", "course", "standard error of the retain loss", "nats per {item}"),
)
_RULES = (
    _Column("violations", "course", "steps that may have increased a loss"),
    *_ENDS,
    _Column("distance", "course", "optimizer's estimate of the distance to the solution"),
    _Column("effective_lr", "course", "effective learning rate"),
    _Column("auto_lr_eta_star", "course", "AutoLR's eta*"),
    _Column("auto_lr_slope", "course", "AutoLR's slope G"),
    _Column("auto_lr_curvature", "course", "AutoLR's curvature H"),
    _Column("auto_lr_not_finite", "course", "AutoLR updates that kept the rate (infinite or NaN loss)"),
    _Column("auto_lr_no_descent", "course", "AutoLR updates that kept the rate (loss would not fall)"),
    _Column("auto_lr_no_curvature", "course", "AutoLR updates that kept the rate (no curvature)"),
    _Column("seconds", "cost", "training and evaluation", "s"),
)
_AUDIT = {
    "ignorance_p": "p-value: like a model that never saw the forget set",
    "knowledge_p": "p-value: like a model that saw the forget set",
}
"""The labels of the columns that an audit adds (:mod:`analysis.audit`)."""
_COLUMNS = (*_IDS, *_STATUS, *_COSTS, *_STEPS, *_COURSE, *_RULES, _REPORTED)


def _names(columns: Iterable[_Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


_FIRST_PARAMETERS = ("model", "dataset", "method", *option_names(), "lr", "auto_lr", "seed")
_OPTIONAL = tuple(name for name in METRICS if name not in (*LOSS_METRICS, *DEFAULT_SET))
"""The metrics that are measured only on request."""

PARAMETERS = tuple(dict.fromkeys((*_FIRST_PARAMETERS, *FIELDS)))
"""The columns with the settings of a trial."""
METRIC_COLUMNS = (*LOSS_METRICS, *DEFAULT_SET, *_OPTIONAL)
TRIAL_COLUMNS = (
    *_names(_IDS),
    *PARAMETERS,
    *_names(_STATUS),
    *METRIC_COLUMNS,
    *_names((*_COSTS, *_ENDS)),
)
HISTORY_COLUMNS = (
    "trial_id",
    "phase",
    *_names(_STEPS),
    "lr",
    *_names(_COURSE),
    *METRIC_COLUMNS,
    *_names((*_RULES, _REPORTED)),
)
CANDIDATE_COLUMNS = ("trial_id", "epoch", "step", *METRIC_COLUMNS, *_AUDIT, "checkpoint")
"""The columns of candidates.csv. ``checkpoint`` is a path relative to the sweep's folder."""


def unused_columns(
    methods: Iterable[str], metrics: Iterable[str], *, modality: str = "", audit: bool = False
) -> frozenset[str]:
    """Return the columns that a sweep's tables omit: options of unused methods, and metrics that are not requested.

    The option ``c`` and the default metrics are never omitted. ``metrics`` may contain names of metric sets. If
    ``modality`` is given, the metrics of attacks that do not apply to this modality are omitted, too. ``audit`` is
    whether the sweep has an audit.
    """
    used_options = {"c"}
    for method in methods:
        used_options.update(parse_method(method).options)
    requested = metrics_in(metrics)
    requested.update([f"{name}_distance" for name in requested])  # a metric's distance is requested with the metric
    if modality:
        requested -= {name for name, item in METRICS.items() if item.attack and modality not in item.modalities}
    unused_options = frozenset(option_names()) - used_options
    is_attacked = any(METRICS[name].attack for name in requested & METRICS.keys())
    unused = [] if is_attacked else [name for name, item in FIELDS.items() if item.role == "attack"]
    unused += [name for name in _OPTIONAL if name not in requested]
    return unused_options.union(unused, () if audit else _AUDIT)


_PROGRESS_AND_COSTS = tuple(column.name for column in _COLUMNS if column.role in ("progress", "cost"))
OUTCOME_METRICS = tuple(name for name in TRIAL_COLUMNS if name in (*METRIC_COLUMNS, *_PROGRESS_AND_COSTS))
"""The numeric columns of a trial's outcome."""
HISTORY_METRICS = tuple(name for name in HISTORY_COLUMNS if name not in ("trial_id", "phase", "step", _REPORTED.name))
AUTO_LR_COLUMNS = ("trial_id", "step", *UPDATE_COLUMNS)
LANDSCAPE_COLUMNS = (
    "trial_id",
    "step",
    "eta",
    "direction",
    "x",
    "retain_loss",
    "forget_loss",
    "slope",
    "curvature",
    "loss_zero",
    "eta_star",
)


def column_dictionary(*, random_guess: float | None = None, unit: str = "token") -> dict[str, dict[str, object]]:
    """Describe the columns of trials.csv and history.csv for sweep.json. A description omits keys without a value.

    Args:
        random_guess: the loss of a random guess in nats, which is the upper bound of losses; None before the target is
            prepared.
        unit: ``token`` or ``image``, over which losses are averaged.
    """
    settings: tuple[_Column | Field, ...] = (*_COLUMNS, *OPTIONS.values(), *FIELDS.values())
    entries: dict[str, dict[str, object]] = {
        item.name: {"role": item.role, "label": item.label, "unit": item.unit.format(item=unit) or None}
        for item in settings
    }
    for name, metric in METRICS.items():
        bounds = None
        if metric.high is not None or random_guess is not None:
            bounds = [bound if math.isfinite(bound) else None for bound in metric.bounds(random_guess or 0.0)]
        entries[name] = {
            "role": "loss" if metric.loss else "metric",
            "label": metric.label,
            "unit": metric.unit and metric.unit.format(item=unit),
            "direction": metric.direction,
            "bounds": bounds,
            "ideal": metric.ideal,
            "knows": metric.knows,
            "of": metric.of,
            "primary": metric.primary or None,
            "threshold": metric.threshold,
            "fluency": metric.fluency or None,
            "usable": metric.usable,
            "descriptive": metric.descriptive or None,
            "each_evaluation": metric.each_evaluation or None,
            "attack": metric.attack or None,
            "attacked": metric.attacked or None,
        }
    for name, label in _AUDIT.items():
        entries[name] = {"role": "metric", "label": label, "direction": None, "bounds": [0.0, 1.0], "descriptive": True}
    return {
        name: {key: value for key, value in entries[name].items() if value is not None}
        for name in dict.fromkeys((*TRIAL_COLUMNS, *HISTORY_COLUMNS, *CANDIDATE_COLUMNS))
    }


def plugin_problems() -> list[str]:
    """Return an error message for each option or metric of a plug-in that has the name of an existing column."""
    existing_columns = {*_names(_COLUMNS), *FIELDS}
    problems = []
    for plugin in plugins.active():
        for part in plugin.parts:
            is_metric = part.kind == "metric"
            names = [part.name] if is_metric else [item.name for item in getattr(part.entry, "options", ())]
            used_names = existing_columns.union(option_names() if is_metric else METRICS)
            problems += [
                f"{plugin.path}: {name} of {part.kind} '{part.name}' has the name of an existing column; rename it"
                for name in names
                if name in used_names
            ]
    return problems
