"""Find the stored models of a sweep on which metrics or attacks are not measured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.state import SweepState

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class UnmeasuredEpoch:
    """A stored model and metrics that are not measured on it. ``checkpoint`` is relative to the sweep's folder.

    ``metric_set`` is the set of the metrics, such as the name of an attack; "" for the metrics of the sweep's trials.
    """

    trial_id: str
    step: int
    checkpoint: str
    metric_set: str = ""

    @classmethod
    def of(cls, row: pd.Series, metric_set: str = "") -> UnmeasuredEpoch:
        return cls(str(row["trial_id"]), int(row["step"]), str(row["checkpoint"]), metric_set)


def unmeasured_epochs(out: Path, settings: SweepSettings, state: SweepState) -> list[UnmeasuredEpoch]:
    """Return the epochs on the frontier whose metrics are not measured, nearest to the ideal corner first.

    With constraints, the frontier of the epochs that meet them is included, because its models can be selected
    (:func:`~analysis.frontier.frontier.selectable_models`), and the epochs that meet them come first. At the ideal
    corner, all objectives have their best possible values. Only the first ``settings.max_measured_epochs`` epochs are
    considered. Epochs without a checkpoint are left out. If only losses are requested, the result is empty.
    """
    max_epochs = settings.max_measured_epochs
    if not (max_epochs and settings.every_epoch and (out / "candidates.csv").is_file()):
        return []
    import numpy as np

    from analysis.frontier.frontier import is_kept_epoch, meets_constraints
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trade_off import costs_of, values_of
    from analysis.tables.trial_table import TrialTable, numbers
    from trainables.metrics.registry import metrics_in

    sweep = SweepFile.read(out)
    table = TrialTable.read(out)
    requested_names = metrics_in(settings.base.metrics)
    names = [
        name
        for name in table.columns.metrics
        if name in sweep.baseline and name in requested_names and not table.columns[name].each_evaluation
    ]
    if not names or table.trials.empty:
        return []
    epochs = table.models.finished
    kept = epochs[is_kept_epoch(epochs, sweep)]
    distances = np.linalg.norm(costs_of(values_of(kept, sweep.objectives), sweep.objectives), axis=1)  # to the corner
    order = np.lexsort([distances, ~meets_constraints(kept, sweep)])  # the last key is compared first
    nearest = kept.iloc[order[:max_epochs]]
    measured_flags = np.any([numbers(nearest, name).notna() for name in names], axis=0).tolist()
    unmeasured = [
        UnmeasuredEpoch.of(row)
        for (_, row), is_measured in zip(nearest.iterrows(), measured_flags, strict=True)
        if row["checkpoint"] and not is_measured
    ]
    return [epoch for epoch in unmeasured if not _was_measured(epoch, state)]


def unattacked_epochs(
    out: Path, settings: SweepSettings, state: SweepState, *, measurable: Collection[str] | None = None
) -> list[UnmeasuredEpoch]:
    """Return the stored models on which an attack is not measured, once for each such attack.

    Other metric sets that are measured after the search count as attacks here.
    :func:`~analysis.frontier.attack_plan.models_to_attack` chooses at most ``settings.max_attacked_models`` models.

    Args:
        measurable: the metrics that the data support; by default, the metrics that are measured on the target. An
            attack without such a metric is left out.
    """
    if not (settings.sets_after_search and settings.max_attacked_models and (out / "candidates.csv").is_file()):
        return []
    import numpy as np

    from analysis.frontier.attack_plan import models_to_attack
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable, numbers
    from trainables.metrics.registry import SETS

    sweep = SweepFile.read(out)
    limit, epsilon = settings.max_attacked_models, settings.attack_epsilon
    rows = models_to_attack(TrialTable.read(out), sweep, limit=limit, epsilon=epsilon)
    known = sweep.baseline if measurable is None else measurable
    unattacked = []
    for metric_set in settings.sets_after_search:
        values = [numbers(rows, name).notna() for name in SETS[metric_set] if name in known]
        is_attacked = np.any(values, axis=0) if values else np.ones(len(rows), dtype=bool)
        missing = rows[~is_attacked]
        unattacked += [UnmeasuredEpoch.of(row, metric_set) for _, row in missing.iterrows()]
    return [epoch for epoch in unattacked if not _was_measured(epoch, state)]


def unmeasured_models(out: Path, settings: SweepSettings, state: SweepState) -> list[UnmeasuredEpoch]:
    """Return all measurements of stored models that are missing."""
    return [*unmeasured_epochs(out, settings, state), *unattacked_epochs(out, settings, state)]


def _was_measured(epoch: UnmeasuredEpoch, state: SweepState) -> bool:
    """Return whether the metrics were measured, even if none has a value, because an attack destroyed the model."""
    return (epoch.step, epoch.metric_set) in state.trials[epoch.trial_id].measured_sets
