"""Trials by problem (what is unlearned from which target). Losses of different problems are not comparable."""

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
from analysis.words import nominal, number

STRUCTURE = ("model", "dataset", "method", "lr", "seed")
"""Columns that every problem has, or that never make trials different problems."""
_BY_SEED = {"target": ("target_key", "target_seed"), "data": ("target_key", "data_seed")}
"""The columns that the seeds vary, by what the seeds were declared to vary."""


class Problem(NamedTuple):
    """The model, the data set, and what sets the problem apart from others on both.

    ``apart`` is such as ``forget split forget01``; empty if there is no other problem on the same model and data set.
    """

    model: str
    dataset: str
    apart: str = ""

    def __str__(self) -> str:
        """``tiny-phi, tofu (forget split forget01)``."""
        return f"{self.model}, {self.dataset}" + (f" ({self.apart})" if self.apart else "")

    @property
    def names(self) -> tuple[str, ...]:
        """Its parts, for the name of a file."""
        return tuple(filter(None, self))


@dataclass(frozen=True, slots=True, eq=False)
class Problems:
    """The problems of a table.

    Attributes:
        of: the problem of each trial, in the order of the table.
        differ: by model and data set the columns in which their problems differ.
        given: the value of each trial in the columns in which any differ; None if it has none.
    """

    of: tuple[Problem, ...]
    differ: Mapping[tuple[str, str], Sequence[str]]
    given: pd.DataFrame

    @property
    def notes(self) -> tuple[Note, ...]:
        """For each model and data set with several problems the columns in which they differ."""
        return tuple(
            note("several_problems", place=place, columns=tuple(names)) for place, names in self.differ.items() if names
        )


def problems_of(
    table: TrialTable, sweep: SweepFile | None = None, *, roles: Sequence[str] = ("data",), seeds_vary: str = "order"
) -> Problems:
    """The problem of every trial: model, data set and the columns of ``roles`` in which the trials on these differ.

    Columns that the seeds were declared to vary are ignored. ``target_key``, a hash, is left out if the other columns
    distinguish the same problems. With ``sweep``, an empty cell is unknown if the tables of the trial's sweep lack the
    column, or if the row is external. A trial with an unknown value belongs to the only problem on its model and data
    set or, if there are several, to one of its own.
    """
    own = table.own.trials
    asked = [name for name in table.spec_columns if name not in STRUCTURE and table.columns[name].role in roles]
    asked = [name for name in asked if name not in _left_to_seeds(own, asked, seeds_vary)]
    places = pd.Series(list(zip(table.trials["model"], table.trials["dataset"], strict=True)), table.trials.index)
    cells = {name: pd.Series(map(nominal, table.trials[name]), table.trials.index, dtype=object) for name in asked}
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
        fewer = [name for name in names if name != "target_key"]
        alike = len(rows[fewer].drop_duplicates()) if fewer else 1
        differ[place] = fewer if alike == len(rows[names].drop_duplicates()) else names
    found = (
        Problem(model, dataset, ", ".join(_in_words(name, row[name]) for name in differ.get((model, dataset), ())))
        for (model, dataset), (_, row) in zip(places, given.iterrows(), strict=True)
    )
    return Problems(tuple(found), differ, given)


def _left_to_seeds(own: pd.DataFrame, asked: Sequence[str], seeds_vary: str) -> Sequence[str]:
    """The columns that the seeds vary within a problem: none if a seed has several targets after all."""
    names = [name for name in _BY_SEED.get(seeds_vary, ()) if name in asked]
    others = [name for name in asked if name not in names]
    seeds = own.groupby(["model", "dataset", "seed", *others], dropna=False, sort=False)
    return names if all((seeds[name].nunique(dropna=False) <= 1).all() for name in names) else ()


def _silent(table: TrialTable, given: pd.DataFrame, sweep: SweepFile | None) -> pd.DataFrame:
    """Which empty cells are unknown values; shape of ``given``."""
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
    """The sources of each problem in the order of the table, and the notes of all.

    An external row without a model, a data set or a value in which problems differ belongs to every problem that it may
    be about; a row about a problem without trials is in no part. Without trials there is one part, named ("", "").
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
        # Sweeps of different problems may differ; those of one problem are scored together.
        notes = [item for item in notes if item not in differences(sources.sweeps)]
        notes += [
            replace(item, source=str(problem)) for problem, part in parts.items() for item in differences(part.sweeps)
        ]
    if homeless:
        notes.append(note("rows_on_no_frontier", rows=tuple(homeless)))
    return parts, tuple(notes)


def file_stem(name: str, *words: str) -> str:
    """The stem of a figure's files: its name and the names of its problem."""
    return "_".join("".join(c if c.isalnum() or c in "-_" else "-" for c in word) for word in (name, *words))


def _inside(table: TrialTable, problems: Problems, problem: Problem) -> Mask:
    """Which trials are about ``problem``; shape (trials,)."""
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
    """The trials of ``mask`` with the baseline and the bounds of their sweeps."""
    table = sources.table
    part = table.of(table.trials[mask])
    if alone:
        return replace(sources, table=part)
    names = set(part.trials["sweep"])
    files = {name: file for name, file in sources.sweep.parts.items() if name in names}
    # A single run has no file with its target's scores; the baseline of another problem does not apply.
    sweep = shared(files) if files else sources.sweep
    if not files and sources.sweep.parts:
        sweep = replace(sweep, baseline={}, parts={})
    others = set(table.trials.loc[~mask, "sweep"])
    if not files or names & others & set(files):
        sweep = replace(sweep, settings={**sweep.settings, "trials": None})
    updates, landscape = (
        frame[frame["trial_id"].isin(set(part.trials["trial_id"]))] if len(frame) else frame
        for frame in (sources.auto_lr, sources.landscape)
    )
    return Sources(part, sweep, tuple(files.values()) or sources.sweeps, updates, landscape)
