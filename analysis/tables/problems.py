"""A report's trials by problem (model and data set): the losses of one say nothing about those of another."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from analysis.tables.sources import Sources, differences, shared
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import TrialTable


class Problem(NamedTuple):
    """What is unlearned by which model."""

    model: str
    dataset: str

    def __str__(self) -> str:
        return ", ".join(self)


def by_problem(sources: Sources) -> tuple[dict[Problem, Sources], tuple[str, ...]]:
    """The sources of each model and data set in the order of the table, and the notes of all, in sentences.

    A row from elsewhere that does not say its model or data set is taken to be about every one; a row about a model
    or a data set of which there is no trial is in no part. Without trials there is one part, named ("", "").
    """
    trials = sources.table.trials
    found = problems_of(sources.table.own)
    if not found:
        return {Problem("", ""): sources}, sources.table.notes
    inside = {problem: _inside(sources.table, problem) for problem in found}
    homeless = trials["trial_id"].to_numpy()[~np.any(list(inside.values()), axis=0)].tolist()
    parts = {problem: _part(sources, mask, alone=len(found) == 1) for problem, mask in inside.items()}
    notes = list(sources.table.notes)
    if len(parts) > 1:
        # Sweeps of different problems may differ; those of one are scored together.
        notes = [note for note in notes if note not in differences(sources.sweeps)]
        notes += [f"{problem}: {note}" for problem, part in parts.items() for note in differences(part.sweeps)]
    if homeless:
        notes.append(f"on no frontier, as no trial has their model and data set: {', '.join(homeless)}")
    return parts, tuple(notes)


def problems_of(table: TrialTable) -> list[Problem]:
    """The problems of a table, in its order."""
    pairs = zip(table.trials["model"], table.trials["dataset"], strict=True)
    return [Problem(*pair) for pair in dict.fromkeys(pairs)]


def file_stem(name: str, *words: str) -> str:
    """The stem of the files of a figure on something that has names of its own."""
    return "_".join("".join(c if c.isalnum() or c in "-_" else "-" for c in word) for word in (name, *words))


def _inside(table: TrialTable, problem: Problem) -> Mask:
    """Which trials are about ``problem``; shape (trials,)."""
    foreign = table.trials["elsewhere"].to_numpy(dtype=bool)
    mask = np.ones(len(foreign), dtype=bool)
    for column, value in problem._asdict().items():
        given = table.trials[column].to_numpy(dtype=object)
        mask &= np.asarray(given == value, dtype=bool) | (foreign & np.asarray(given == "", dtype=bool))
    return mask


def _part(sources: Sources, mask: Mask, *, alone: bool) -> Sources:
    """The trials of ``mask`` with the baseline and the bounds of the sweeps that they are from."""
    table = sources.table
    part = table.of(table.trials[mask])
    if alone:
        return replace(sources, table=part)
    names = set(part.trials["sweep"])
    files = {name: file for name, file in sources.files.items() if name in names}
    # A single run has no file that says what its target scores; another problem's baseline is none of its own.
    sweep = shared(list(files.items())) if files else sources.sweep
    if not files and sources.files:
        sweep = replace(sweep, baseline={})
    elsewhere = set(table.trials.loc[~mask, "sweep"])
    if not files or names & elsewhere & set(files):
        sweep = replace(sweep, settings={**sweep.settings, "trials": None})
    updates, landscape = (
        frame[frame["trial_id"].isin(set(part.trials["trial_id"]))] if len(frame) else frame
        for frame in (sources.auto_lr, sources.landscape)
    )
    return Sources(part, sweep, tuple(files.values()) or sources.sweeps, updates, landscape, files)
