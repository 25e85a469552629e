"""Compute the cost of AutoLR. The unit is one run at a fixed learning rate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.study.lr_grid import Arm
from analysis.study.tuning_curve import PROBE_CHARGE
from analysis.tables.trial_table import TrialTable, finite_cell

PROBES, LOGGED = "auto_lr_probes", "auto_lr_logged"
"""The columns that :func:`with_probes` adds."""
STEP_PASSES = "step_passes"
"""The column that :func:`with_step_passes` adds."""
_BATCH = 3
"""The cost of training on one batch, in forward passes: one forward pass, and a backward pass that costs two."""


def with_probes(table: TrialTable, updates: pd.DataFrame) -> TrialTable:
    """Return the table with two more columns. :data:`PROBES` counts AutoLR's evaluations of the retain loss away from
    the current parameters, and :data:`LOGGED` counts the updates in which they were made.

    ``updates`` has the rows of auto_lr.csv. Both counts are NaN for a trial whose rows or counts are missing there.
    """
    if "probes" not in updates.columns:
        return table
    last = updates.drop_duplicates(["trial_id", "step"], keep="last")
    probes = pd.to_numeric(last["probes"], errors="coerce").groupby(last["trial_id"])
    found = {PROBES: probes.sum(min_count=1), LOGGED: probes.count().where(lambda counts: counts > 0)}
    columns = {name: table.trials["trial_id"].map(counts).astype(float) for name, counts in found.items()}
    return replace(table, trials=table.trials.assign(**columns))


def with_step_passes(table: TrialTable) -> TrialTable:
    """Return the table with the column :data:`STEP_PASSES`: the cost of a training step, in forward passes.

    A method reports the training loss of every batch that a step reads. A step costs six passes if it reads a forget
    and a retain batch, three if it reads only one of them, and NaN if the trial reported nothing.
    """
    sides = [name for name in ("train_forget_loss", "train_retain_loss") if name in table.history.columns]
    if not sides:
        return table
    read = table.history[sides].notna().groupby(table.history["trial_id"]).any().sum(axis=1)
    passes = table.trials["trial_id"].map(_BATCH * read[read > 0]).astype(float)
    return replace(table, trials=table.trials.assign(**{STEP_PASSES: passes}))


def auto_lr_charge(hand: Arm, auto: Arm) -> tuple[float, bool]:
    """Return AutoLR's cost in runs, and whether it was measured. The larger of two estimates is returned.

    The measured cost is the median ratio of training times, over pairs of runs in which AutoLR starts from the fixed
    rate of the other run, with the same seed and configuration. The computed cost is the median of :func:`probe_runs`,
    or :data:`PROBE_CHARGE` if the table lacks the number of probes. It is a lower bound, because timers are noisy.
    """
    pairs = [
        (unit.runs[item].train_seconds, hand[lr][seed].runs[item].train_seconds)
        for lr in auto.keys() & hand.keys()
        for seed, unit in auto[lr].items()
        if seed in hand[lr]
        for item in unit.runs.keys() & hand[lr][seed].runs.keys()
        if unit.runs[item].costs is not None and hand[lr][seed].runs[item].costs is not None
    ]
    ratios = [own / fixed for own, fixed in pairs if own > 0 and fixed > 0]
    known = [runs for row in _rows(auto) if (runs := probe_runs(row)) is not None]
    least = float(np.median(known)) if known else PROBE_CHARGE
    measured = float(np.median(ratios)) if ratios else 0.0
    return (measured, True) if measured >= least else (least, False)


def median_updates(auto: Arm) -> float | None:
    """Return the median number of AutoLR updates over its finished trials; None if no trial has this number."""
    known = [count for row in _rows(auto) if row["status"] == "finished" and (count := updates_of(row)) is not None]
    return float(np.median(known)) if known else None


def _rows(arm: Arm) -> list[pd.Series]:
    return [run.row for units in arm.values() for unit in units.values() for run in unit.runs.values()]


def updates_of(row: pd.Series) -> int | None:
    """Return the number of updates in a trial: as logged, or one at ``auto_lr_start`` and every ``auto_lr_every``."""
    if (logged := finite_cell(row, LOGGED)) is not None:
        return int(logged)
    steps, every = finite_cell(row, "steps"), finite_cell(row, "auto_lr_every")
    if not steps or not every:
        return None
    start = finite_cell(row, "auto_lr_start") or 1.0
    return math.floor((steps - start) / every) + 1 if steps >= start else 0


def probe_runs(row: pd.Series) -> float | None:
    """Return the cost of a finished AutoLR trial in runs, by counting forward passes; None if its row lacks the counts.

    An update evaluates the retain loss at its probes (two if they were not counted) and, with ``fresh`` probes, at the
    current parameters, over ``auto_lr_probe_batches`` batches each (one in older tables). If the number of batches per
    training step is unknown, one is assumed, so that AutoLR's cost is overestimated rather than underestimated.
    """
    steps, updates = finite_cell(row, "steps"), updates_of(row)
    if row["status"] != "finished" or not steps or updates is None:
        return None
    batches = finite_cell(row, "auto_lr_probe_batches") or 1.0
    probes = finite_cell(row, PROBES)
    fresh = row.get("auto_lr_probe") == "fresh"
    looks = (2 * updates if probes is None else probes) + (updates if fresh else 0)
    step = finite_cell(row, STEP_PASSES) or _BATCH
    return 1.0 + looks * (batches if fresh else 1.0) / (step * steps)
