"""The columns of trials.csv, history.csv, auto_lr.csv and landscape.csv, and which of them MLflow gets as what."""

from __future__ import annotations

from trainables.auto_lr.step import UPDATE_COLUMNS
from trainables.methods import option_names
from trainables.scoring.evaluator import FINAL_METRICS, FURTHER_METRICS, LOSSES
from trainables.spec import SPEC_FIELDS

_LEADING = ("trial_id", "spec_hash", "model", "dataset", "method", *option_names(), "lr", "auto_lr", "seed")
_OUTCOME = (
    "status",
    "steps",
    "epochs_done",
    *LOSSES,
    *FINAL_METRICS,
    "padding",
    "train_seconds",
    "eval_seconds",
    "wall_seconds",
    "checkpoint",
    "error",
    "started_at",
    "first_step_at",
    "ended_at",
    "worker",
    *FURTHER_METRICS,
    "generation_seconds",
)
TRIAL_COLUMNS = (*_LEADING, *(name for name in SPEC_FIELDS if name not in _LEADING), *_OUTCOME)
METRIC_COLUMNS = (*LOSSES, *FINAL_METRICS, *FURTHER_METRICS)
HISTORY_COLUMNS = (
    "trial_id",
    "step",
    "epoch",
    "lr",
    "c_t",
    "grad_norm_retain",
    "grad_norm_forget",
    "grad_norm",
    "grad_cosine",
    "train_retain_loss",
    "train_forget_loss",
    *LOSSES,
    *FINAL_METRICS,
    "violations",
    "distance",
    "effective_lr",
    "auto_lr_eta_star",
    "auto_lr_slope",
    "auto_lr_curvature",
    "auto_lr_updates",
    "auto_lr_not_finite",
    "auto_lr_no_descent",
    "auto_lr_no_curvature",
    "auto_lr_clipped",
    "padding",
    "seconds",
    *FURTHER_METRICS,
    "reported_at",
)
AUTO_LR_COLUMNS = ("trial_id", "step", *UPDATE_COLUMNS)
LANDSCAPE_COLUMNS = (
    *("trial_id", "step", "eta", "x", "retain_loss", "forget_loss", "slope", "curvature", "loss_zero", "eta_star"),
)
PARAMETERS = (*_LEADING[2:], *(name for name in SPEC_FIELDS if name not in _LEADING))
"""The columns that say what a trial was asked to do."""
OUTCOME_METRICS = (
    *("steps", "epochs_done", *LOSSES, *FINAL_METRICS, "padding"),
    *("train_seconds", "eval_seconds", "wall_seconds", *FURTHER_METRICS, "generation_seconds"),
)
"""The numeric columns that say how a trial ended."""
HISTORY_METRICS = tuple(name for name in HISTORY_COLUMNS if name not in ("trial_id", "step", "reported_at"))
