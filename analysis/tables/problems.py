"""Group trials by unlearning problem. Losses of different problems are not comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.tables.columns import short
from analysis.tables.note import Note, note
from analysis.tables.sources import Sources, differences, shared
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import TrialTable
from analysis.words import number, rounded_cell

STRUCTURE = ("model", "dataset", "method", "lr", "seed")
"""Columns that never distinguish two problems with the same model and data set."""
_BY_SEED = {"target": ("target_key", "target_seed"), "data": ("target_key", "data_seed")}
"""The columns that depend on the seed, for each value of the setting ``seeds_vary``."""


class Problem(NamedTuple):
    """An unlearning problem: a model, a data set, and the settings that distinguish it from other problems.

    Attributes:
        apart: these settings as text, such as ``forget split forget01``; "" if there is only one problem with this
            model and data set.
    """

    model: str
    dataset: str
    apart: str = ""

    def __str__(self) -> str:
        """Return text such as ``tiny-phi, tofu (forget split forget01)``."""
        return f"{self.model}, {self.dataset}" + (f" ({self.apart})" if self.apart else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a figure's file name: model, data set and :attr:`apart`, without empty words."""
        return tuple(filter(None, self))


@dataclass(frozen=True, slots=True, eq=False)
class Problems:
    """The unlearning problems in a trial table.

    Attributes:
        of: the problem of each trial, in the order of the table.
        differ: for each pair (model, data set), the columns that distinguish its problems.
        given: a row for each trial with its values in all columns that may distinguish problems; None for a missing
            value.
    """

    of: tuple[Problem, ...]
    differ: Mapping[tuple[str, str], Sequence[str]]
    given: pd.DataFrame

    @property
    def notes(self) -> tuple[Note, ...]:
        """A note for each pair (model, data set) with several problems."""
        return tuple(
            note("several_problems", place=place, columns=tuple(names)) for place, names in self.differ.items() if names
        )


def problems_of(
    table: TrialTable, sweep: SweepFile | None = None, *, roles: Sequence[str] = ("data",), seeds_vary: str = "order"
) -> Problems:
    """Return the unlearning problem of every trial.

    Trials with the same model and data set belong to different problems if they differ in a column with one of the
    ``roles``. An unknown cell takes the value of the other trials with the same model and data set, if these trials
    have equal values. Otherwise, "unknown" counts as a separate value.

    Args:
        sweep: the settings of the sweeps. The value of an empty cell is unknown if the row is from an external table,
            or if the row's sweep lacks the column. By default, no value is unknown.
        roles: the roles of the columns that distinguish problems.
        seeds_vary: what the seed of a trial changes (:attr:`SweepFile.seeds_vary`). Columns that depend on the seed do
            not distinguish problems.
    """
    own = table.own.trials
    asked = [name for name in table.spec_columns if name not in STRUCTURE and table.columns[name].role in roles]
    asked = [name for name in asked if name not in _left_to_seeds(own, asked, seeds_vary)]
    places = pd.Series(list(zip(table.trials["model"], table.trials["dataset"], strict=True)), table.trials.index)
    cells = {name: pd.Series(map(rounded_cell, table.trials[name]), table.trials.index, dtype=object) for name in asked}
    given = pd.DataFrame(cells, table.trials.index)
    silent = _silent(table, given, sweep)
    differ: dict[tuple[str, str], list[str]] = {}
    for place in dict.fromkeys(places[own.index]):
        here = places == place
        for name in asked:
            known = given.loc[here & ~silent[name], name].unique()
            if len(known) == 1:
                given.loc[here & silent[name], name] = known[0]
        rows = given.loc[own.index.intersection(given.index[here])]
        names = [name for name in asked if rows[name].nunique(dropna=False) > 1]
        # The hash target_key is left out if the other columns distinguish all problems.
        fewer = [name for name in names if name != "target_key"]
        alike = len(rows[fewer].drop_duplicates()) if fewer else 1
        differ[place] = fewer if alike == len(rows[names].drop_duplicates()) else names
    found = (
        Problem(model, dataset, ", ".join(_in_words(name, row[name]) for name in differ.get((model, dataset), ())))
        for (model, dataset), (_, row) in zip(places, given.iterrows(), strict=True)
    )
    return Problems(tuple(found), differ, given)


def _left_to_seeds(own: pd.DataFrame, asked: Sequence[str], seeds_vary: str) -> Sequence[str]:
    """Return the columns whose values depend on the seed; () if one of them has several values for the same seed."""
    names = [name for name in _BY_SEED.get(seeds_vary, ()) if name in asked]
    others = [name for name in asked if name not in names]
    seeds = own.groupby(["model", "dataset", "seed", *others], dropna=False, sort=False)
    return names if all((seeds[name].nunique(dropna=False) <= 1).all() for name in names) else ()


def _silent(table: TrialTable, given: pd.DataFrame, sweep: SweepFile | None) -> pd.DataFrame:
    """Return a mask of the unknown cells: empty cells of external tables, or of sweeps that lack the column."""
    nobody = np.zeros(given.shape, dtype=bool)
    if sweep is not None:
        external = table.trials["external"].to_numpy(dtype=bool)
        for place, name in enumerate(given.columns):
            lacking = [called for called, file in sweep.parts.items() if name not in file.columns]
            nobody[:, place] = external | table.trials["sweep"].isin(lacking).to_numpy()
    return pd.DataFrame(nobody & given.isna().to_numpy(dtype=bool), given.index, given.columns)


def _in_words(name: str, value: object) -> str:
    return f"no {short(name)}" if value is None else f"{short(name)} {number(value)}"


def by_problem(sources: Sources) -> tuple[dict[Problem, Sources], tuple[Note, ...]]:
    """Split the sources by problem, in the order of the table. Also return the notes on all problems.

    A row of an external table belongs to every problem that matches its known values. A row without a matching problem
    is left out. If the sweeps have no trials, all sources belong to one problem with empty names.
    """
    table, sweep = sources.table, sources.sweep
    problems = problems_of(table, sweep, seeds_vary=sweep.seeds_vary)
    external = table.trials["external"].to_numpy(dtype=bool)
    found = dict.fromkeys(problem for problem, far in zip(problems.of, external, strict=True) if not far)
    if not found:
        return {Problem("", ""): sources}, table.notes
    inside = {problem: _inside(table, problems, problem) for problem in found}
    homeless = table.trials["trial_id"].to_numpy()[~np.any(list(inside.values()), axis=0)].tolist()
    parts = {problem: _part(sources, mask, alone=len(found) == 1) for problem, mask in inside.items()}
    notes = [*table.notes, *problems.notes]
    if len(parts) > 1:
        # Only sweeps on the same problem are scored together, so only differences between these sweeps are noted.
        notes = [item for item in notes if item not in differences(sweep)]
        notes += [
            replace(item, source=str(problem)) for problem, part in parts.items() for item in differences(part.sweep)
        ]
    if homeless:
        notes.append(note("rows_on_no_frontier", rows=tuple(homeless)))
    return parts, tuple(notes)


def file_stem(name: str, *words: str) -> str:
    """Join the words to the stem of a figure's file name. Special characters become hyphens."""
    return "_".join("".join(c if c.isalnum() or c in "-_" else "-" for c in word) for word in (name, *words))


def _inside(table: TrialTable, problems: Problems, problem: Problem) -> Mask:
    """Return a mask, shape (trials,), of a problem's trials and of the external trials that may belong to it."""
    external = table.trials["external"].to_numpy(dtype=bool)
    mask = np.array([found == problem for found in problems.of], dtype=bool) & ~external
    one = table.trials.index[mask][0]
    may = external.copy()
    for column in ("model", "dataset"):
        may &= table.trials[column].isin(("", table.trials.at[one, column])).to_numpy()
    for column in problems.differ[problem.model, problem.dataset]:
        possible = (None, problems.given.at[one, column])
        may &= np.array([value in possible for value in problems.given[column]], dtype=bool)
    return np.asarray(mask | may, dtype=bool)


def _part(sources: Sources, mask: Mask, *, alone: bool) -> Sources:
    table = sources.table
    part = table.with_trials(table.trials[mask])
    if alone:
        return replace(sources, table=part)
    names = set(part.trials["sweep"])
    files = {name: file for name, file in sources.sweep.parts.items() if name in names}
    # A single run has no sweep.json with the scores of its target, and must not use the baseline of another problem.
    sweep = shared(files) if files else replace(sources.sweep, baseline={}, parts={})
    others = set(table.trials.loc[~mask, "sweep"])
    if not files or names & others & set(files):
        sweep = replace(sweep, settings={**sweep.settings, "trials": None})
    return Sources(part, sweep)
