"""Collect the notes below a comparison table, which explain or qualify the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.comparison.best_configuration import succeeds
from analysis.comparison.table import MethodRow
from analysis.tables.columns import short
from analysis.tables.note import Note, note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, auto_lr_on, finite_cell
from analysis.words import model_name


def notes_on(here: TrialTable, rows: Sequence[MethodRow], targets: SweepFile) -> tuple[Note, ...]:
    """Return the notes on one model and data set. ``here`` has the trials, and ``targets`` the targets' metrics."""
    return (
        *_lost(here),
        *_seeds(rows),
        *_not_judged(here, targets),
        *_epochs_before(here, targets),
        *values_outside(here.trials, here.columns),
    )


def _lost(here: TrialTable) -> Iterator[Note]:
    """Yield a note for each method that has no finished trial without AutoLR, or no finished trial with AutoLR."""
    trials = here.trials.assign(automatic=auto_lr_on(here.trials))
    for (method, automatic), own in trials.groupby(["method", "automatic"], sort=False):
        if not (own["status"] == "finished").any():
            arm = f"{method} with AutoLR" if automatic else str(method)
            yield note("arm_without_finished_trial", arm=arm, ends=tuple(Counter(own["status"]).items()))


def _seeds(rows: Sequence[MethodRow]) -> Iterator[Note]:
    """Yield notes on methods that have different seeds without and with AutoLR, on methods with one seed (without or
    with AutoLR), and on runs without a seed."""
    for row in rows:
        sides = [side.seed_numbers for side in row.arms.values()]
        if len(sides) == 2 and all(sides) and len(set(sides)) == 2:
            yield note("different_seeds", method=row.method, without=sides[0], with_auto=sides[1])
    arms = {name: entry for row in rows for name, entry in row.arms.items()}
    if alone := tuple(name for name, entry in arms.items() if len(entry.seed_numbers) == entry.seeds == 1):
        yield note("one_seed", names=() if len(alone) == len(arms) > 1 else alone)
    if pooled := tuple(name for name, item in arms.items() if item.unit == "run" and item.seeds + item.lost > 1):
        yield note("unnamed_seeds", names=pooled)


def _not_judged(here: TrialTable, targets: SweepFile) -> Iterator[Note]:
    """Yield a note on thresholds that no trial allows to judge, and a note that the user's thresholds are not used."""
    done = [(row, targets.baseline_of(row)) for _, row in here.finished.iterrows()]
    unknown = tuple(
        short(name)
        for name, item in here.columns.thresholds.items()
        if all(item.met(finite_cell(row, name), before.get(name)) is None for row, before in done)
    )
    if done and unknown:
        yield note("thresholds_not_judged", names=unknown)
    if stated := tuple(dict.fromkeys(text for file in targets.parts.values() for text in file.constraints)):
        yield note("stated_thresholds_ignored", stated=stated)


def _epochs_before(here: TrialTable, targets: SweepFile) -> Iterator[Note]:
    """Yield a note that only last epochs are compared, with the trials that succeed only at an earlier epoch."""
    if not here.every_epoch:
        return
    keys = ["sweep", "trial_id"]
    ends = {tuple(row[keys]) for _, row in here.finished.iterrows() if succeeds(row, here.columns, targets) is True}
    models = here.models.trials.sort_values([*keys, "step"])
    good = models[[succeeds(row, here.columns, targets) is True for _, row in models.iterrows()]]
    first = [row for _, row in good.drop_duplicates(keys).iterrows() if tuple(row[keys]) not in ends]
    yield note("only_ends_compared", better=tuple(model_name(row, with_epoch=True) for row in first))
