"""List the models whose configurations are trained again with fresh seeds."""

from __future__ import annotations

from analysis.frontier.choice import choose_model, to_confirm
from analysis.frontier.confirmation import Confirmed, confirmed
from analysis.frontier.criterion import criterion_of
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, numbers


def models_to_confirm(
    table: TrialTable, sweep: SweepFile, *, model: tuple[str, float | None] | None = None
) -> list[Confirmed]:
    """Return the models whose configurations are trained again, best first, with the results of their fresh runs.

    Args:
        model: the trial id and the epoch of the only model to confirm; None for the best model and its runners-up. The
            epoch None is the trial's last evaluated epoch.
    """
    if model is None:
        choice = choose_model(table, sweep)
        rows = choice.rows.iloc[to_confirm(choice, table)]
    else:
        rows = table.models.trials
        rows = rows[rows["trial_id"] == model[0]].sort_values("epoch")
        rows = rows[numbers(rows, "epoch") == model[1]] if model[1] is not None else rows.iloc[-1:]
    criterion = criterion_of(sweep, table)
    return [confirmed(row, table.fresh, criterion) for _, row in rows.iterrows()]
