"""What a reader should know of the trials of a table before trusting it, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.comparison.entry import succeeds
from analysis.comparison.table import MethodRow
from analysis.tables.columns import short
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, auto_lr_on, finite_cell
from analysis.words import model_name

UNPLACED = (
    "these rows leave their model or data set open, and which of the other trials they belong to is not certain: name "
    "both in the columns model and dataset",
)
_SHOWN = 3
"""Of trials so many are named."""


def notes_on(here: TrialTable, rows: Sequence[MethodRow], targets: SweepFile) -> tuple[str, ...]:
    """The notes on one problem, of whose trials ``here`` is the table and ``targets`` the No-unlearn models."""
    return (
        *_lost(here),
        *_other_seeds(rows),
        *_one_seed(rows),
        *_unnamed_seeds(rows),
        *_not_judged(here, targets),
        *_stated(targets),
        *_epochs_before(here, targets),
        *values_outside(here.trials, here.columns),
    )


def _lost(here: TrialTable) -> Iterator[str]:
    """The arms of which no trial finished."""
    trials = here.trials.assign(automatic=auto_lr_on(here.trials))
    for (method, automatic), own in trials.groupby(["method", "automatic"], sort=False):
        if not (own["status"] == "finished").any():
            arm = f"{method} with AutoLR" if automatic else method
            ends = ", ".join(f"{count} {status}" for status, count in Counter(own["status"]).items())
            none = f"none of {len(own)} trials" if len(own) > 1 else "its one trial has not"
            yield f"{arm}: {none} finished ({ends})"


def _other_seeds(rows: Sequence[MethodRow]) -> Iterator[str]:
    for row in rows:
        sides = [side.seed_numbers for side in row.arms.values()]
        if len(sides) == 2 and all(sides) and len(set(sides)) == 2:
            hand, auto = map(_seeds, sides)
            yield f"{row.method}: without AutoLR on {hand}, with it on {auto}, which may make a difference"


def _one_seed(rows: Sequence[MethodRow]) -> Iterator[str]:
    arms = {name: entry for row in rows for name, entry in row.arms.items()}
    alone = [name for name, entry in arms.items() if len(entry.seed_numbers) == entry.seeds == 1]
    if alone:
        who = "every configuration here" if len(alone) == len(arms) > 1 else _listed(alone)
        yield f"on one seed alone, which does not say how another would end: {who}"


def _unnamed_seeds(rows: Sequence[MethodRow]) -> Iterator[str]:
    pooled = [
        name for row in rows for name, entry in row.arms.items() if entry.unit == "run" and entry.seeds + entry.lost > 1
    ]
    if pooled:
        yield f"rows that do not name their seeds are taken to be runs of one configuration: {_listed(pooled)}"


def _not_judged(here: TrialTable, targets: SweepFile) -> Iterator[str]:
    """The thresholds on what was measured of no trial, or not of its No-unlearn model, or is a share of nothing."""
    done = [(row, targets.baseline_of(row)) for _, row in here.finished.iterrows()]
    unknown = [
        short(name)
        for name, item in here.columns.thresholds.items()
        if all(item.met(finite_cell(row, name), before.get(name)) is None for row, before in done)
    ]
    if done and unknown:
        yield f"nothing here can be called a success, as {_listed(unknown)} cannot be judged"


def _stated(targets: SweepFile) -> Iterator[str]:
    stated = dict.fromkeys(text for file in targets.parts.values() for text in file.constraints)
    if stated:
        yield f"report and pick judge by the thresholds stated ({_listed(list(stated))}), this table by the paper's"


def _epochs_before(here: TrialTable, targets: SweepFile) -> Iterator[str]:
    """That only the ends of trials are compared, and which trials succeed at an epoch before and not at the end."""
    if not here.every_epoch:
        return
    keys = ["sweep", "trial_id"]
    ends = {tuple(row[keys]) for _, row in here.finished.iterrows() if succeeds(row, here.columns, targets) is True}
    models = here.models.trials.sort_values([*keys, "step"])
    good = models[[succeeds(row, here.columns, targets) is True for _, row in models.iterrows()]]
    first = [row for _, row in good.drop_duplicates(keys).iterrows() if tuple(row[keys]) not in ends]
    told = ", ".join(model_name(row, with_epoch=True) for row in first[:_SHOWN])
    more = f" and {len(first) - _SHOWN} more" if first[_SHOWN:] else ""
    found = f", of which these succeed where the end does not: {told}{more}" if first else ""
    yield f"only the ends of trials are compared, while report and pick judge the epochs before them, too{found}"


def _seeds(numbers: Sequence[int]) -> str:
    """``seeds 0 to 2``, ``seed 3``, ``seeds 0, 2 and 5``."""
    if len(numbers) == 1:
        return f"seed {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"seeds {numbers[0]} to {numbers[-1]}"
    return f"seeds {_listed(list(map(str, numbers)))}"


def _listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
