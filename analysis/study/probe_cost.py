"""Compute the cost of AutoLR, in units of one run at a fixed learning rate."""

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
"""The cost of training on one batch, in forward passes. A backward pass counts as two forward passes."""


def with_probes(table: TrialTable, updates: pd.DataFrame) -> TrialTable:
    """Return the table with two additional columns, which count AutoLR's probes and updates in each trial.

    A probe is an evaluation of the retain loss away from the current parameters (column :data:`PROBES`). The column
    :data:`LOGGED` has the number of updates. ``updates`` has the rows of auto_lr.csv. If a trial has no rows in
    auto_lr.csv, or only rows without counts, both columns are NaN for the trial.
    """
    if "probes" not in updates.columns:
        return table
    last = updates.drop_duplicates(["trial_id", "step"], keep="last")
    probes = pd.to_numeric(last["probes"], errors="coerce").groupby(last["trial_id"])
    found = {PROBES: probes.sum(min_count=1), LOGGED: probes.count().where(lambda counts: counts > 0)}
    columns = {name: table.trials["trial_id"].map(counts).astype(float) for name, counts in found.items()}
    return replace(table, trials=table.trials.assign(**columns))


def with_step_passes(table: TrialTable) -> TrialTable:
    """Return the table with the column :data:`STEP_PASSES`, which has the cost of a training step in forward passes.

    A step costs six passes if it uses a forget batch and a retain batch, and three if it uses only one batch. The
    reported training losses show which batches a step uses. If the trial reported nothing, the cost is NaN.
    """
    sides = [name for name in ("train_forget_loss", "train_retain_loss") if name in table.history.columns]
    if not sides:
        return table
    read = table.history[sides].notna().groupby(table.history["trial_id"]).any().sum(axis=1)
    passes = table.trials["trial_id"].map(_BATCH * read[read > 0]).astype(float)
    return replace(table, trials=table.trials.assign(**{STEP_PASSES: passes}))


def auto_lr_charge(hand: Arm, auto: Arm) -> tuple[float, bool]:
    """Return the cost of an AutoLR run, as a multiple of a fixed-rate run, and whether the cost was measured.

    The measured cost is the median ratio of training times over pairs of runs. In a pair, the initial rate of AutoLR is
    the fixed rate of the other run, and seed and configuration are equal. The computed cost is the median of
    :func:`probe_runs`, or :data:`PROBE_CHARGE` if this number is unknown for all runs. If the measured cost is below
    the computed cost, the computed cost is returned, because measured times are noisy.
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
    known = [runs for run in auto.runs if (runs := probe_runs(run.row)) is not None]
    least = float(np.median(known)) if known else PROBE_CHARGE
    measured = float(np.median(ratios)) if ratios else 0.0
    return (measured, True) if measured >= least else (least, False)


def median_updates(auto: Arm) -> float | None:
    """Return the median number of AutoLR updates per finished trial; None if the number is unknown for all trials."""
    finished = [run.row for run in auto.runs if run.row["status"] == "finished"]
    known = [count for row in finished if (count := updates_of(row)) is not None]
    return float(np.median(known)) if known else None


def updates_of(row: pd.Series) -> int | None:
    """Return the number of AutoLR updates in a trial; None if unknown.

    If the number was not logged, it is computed from the settings ``auto_lr_start`` and ``auto_lr_every``.
    """
    if (logged := finite_cell(row, LOGGED)) is not None:
        return int(logged)
    steps, every = finite_cell(row, "steps"), finite_cell(row, "auto_lr_every")
    if not steps or not every:
        return None
    start = finite_cell(row, "auto_lr_start") or 1.0
    return math.floor((steps - start) / every) + 1 if steps >= start else 0


def probe_runs(row: pd.Series) -> float | None:
    """Return the cost of a finished AutoLR trial as a multiple of a fixed-rate trial; None if unknown.

    The cost is computed from the number of forward passes. An update evaluates the retain loss at its probes; if the
    probes were not counted, two probes per update are assumed. If probes use ``fresh`` batches, an update also
    evaluates the loss at the current parameters, and each evaluation uses ``auto_lr_probe_batches`` batches. If the
    number of batches per training step is unknown, one batch is assumed, so that AutoLR's cost is overestimated rather
    than underestimated.
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
