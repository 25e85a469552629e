"""What AutoLR costs beside training at a fixed learning rate, in runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.study.lr_grid import Arm
from analysis.study.tuning_curve import PROBE_CHARGE
from analysis.tables.trial_table import TrialTable, finite_cell

PROBES, LOGGED = "auto_lr_probes", "auto_lr_logged"
"""The columns of :func:`with_probes`."""
STEP_PASSES = "step_passes"
"""The column of :func:`with_step_passes`."""
_BATCH = 3
"""A batch of a training step in forward passes: one forward, and a backward pass of twice its cost."""


def with_probes(table: TrialTable, updates: pd.DataFrame) -> TrialTable:
    """The table with :data:`PROBES`, how often AutoLR evaluated the retain loss away from theta, and :data:`LOGGED`, in
    how many updates.

    ``updates`` are the rows of auto_lr.csv; NaN for a trial without rows in it, or whose log lacks the counts.
    """
    if "probes" not in updates.columns:
        return table
    last = updates.drop_duplicates(["trial_id", "step"], keep="last")
    probes = pd.to_numeric(last["probes"], errors="coerce").groupby(last["trial_id"])
    found = {PROBES: probes.sum(min_count=1), LOGGED: probes.count().where(lambda counts: counts > 0)}
    columns = {name: table.trials["trial_id"].map(counts).astype(float) for name, counts in found.items()}
    return replace(table, trials=table.trials.assign(**columns))


def with_step_passes(table: TrialTable) -> TrialTable:
    """The table with a column :data:`STEP_PASSES`: a training step in forward passes.

    A method reports the training loss of every batch its step reads: six passes for a forget and a retain batch, three
    for one of them. NaN for a trial without a report.
    """
    sides = [name for name in ("train_forget_loss", "train_retain_loss") if name in table.history.columns]
    if not sides:
        return table
    read = table.history[sides].notna().groupby(table.history["trial_id"]).any().sum(axis=1)
    passes = table.trials["trial_id"].map(_BATCH * read[read > 0]).astype(float)
    return replace(table, trials=table.trials.assign(**{STEP_PASSES: passes}))


def auto_lr_charge(hand: Arm, auto: Arm) -> tuple[float, bool]:
    """AutoLR's cost in runs, and whether it is measured: the larger of training time and of what its probes must cost.

    The time is the median over pairs (same lr as start, seed, configuration) of the ratio of the training times; with a
    noisy timer it may fall below what the probes must cost, which is the median of :func:`probe_runs`, or
    :data:`PROBE_CHARGE` if the table does not say how often AutoLR probed.
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
    """How often a run of AutoLR set its rate, the median over its finished trials; None if no row says so."""
    known = [count for row in _rows(auto) if row["status"] == "finished" and (count := updates_of(row)) is not None]
    return float(np.median(known)) if known else None


def _rows(arm: Arm) -> list[pd.Series]:
    return [run.row for units in arm.values() for unit in units.values() for run in unit.runs.values()]


def updates_of(row: pd.Series) -> int | None:
    """The updates of a trial: those logged, else one at ``auto_lr_start`` and one every ``auto_lr_every`` steps."""
    if (logged := finite_cell(row, LOGGED)) is not None:
        return int(logged)
    steps, every = finite_cell(row, "steps"), finite_cell(row, "auto_lr_every")
    if not steps or not every:
        return None
    start = finite_cell(row, "auto_lr_start") or 1.0
    return math.floor((steps - start) / every) + 1 if steps >= start else 0


def probe_runs(row: pd.Series) -> float | None:
    """A finished AutoLR trial in runs, by counting forward passes; None where its row does not say enough.

    An update looks at the retain loss at theta (known from training with ``same`` probes) and at its probes, two of
    them where they were not counted, each over ``auto_lr_probe_batches`` batches (one in tables older than that). A
    step whose batches are not known is taken to read one: AutoLR is charged too much rather than too little.
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
