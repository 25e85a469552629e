"""A report's trials by model and data set: the losses of one problem say nothing about those of another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.frontier.trade_off import Mask
from analysis.tables.sources import Sources, differences, shared
from analysis.tables.trial_table import TrialTable

Place = tuple[str, str]
"""A model and a data set."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The parts of a report.

    Attributes:
        parts: the sources of each (model, data set), in the order of the table; of one place, all of them.
        notes: those of the sources, and what belongs to no part, in sentences.
    """

    parts: dict[Place, Sources]
    notes: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether there are two places or more."""
        return len(self.parts) > 1


def places(sources: Sources) -> Places:
    """The sources by model and data set.

    A row from elsewhere that does not say its model or data set is taken to be about every one; a row about a model
    or a data set of which there is no trial is in no part. Without trials there is one part, named ("", "").
    """
    trials = sources.table.trials
    foreign = trials["elsewhere"].to_numpy(dtype=bool) if "elsewhere" in trials else np.zeros(len(trials), dtype=bool)
    own = trials[~foreign]
    found = list(dict.fromkeys(zip(own["model"], own["dataset"], strict=True)))
    if not found:
        return Places({("", ""): sources}, sources.table.notes)
    inside = {place: _inside(sources, place, foreign) for place in found}
    homeless = trials["trial_id"].to_numpy()[~np.any(list(inside.values()), axis=0)].tolist()
    parts = {place: _part(sources, mask, alone=len(found) == 1) for place, mask in inside.items()}
    notes = list(sources.table.notes)
    if len(parts) > 1:
        # Sweeps of different places may differ; those of one place are scored together.
        notes = [note for note in notes if note not in differences(sources.sweeps)]
        notes += [f"{', '.join(place)}: {note}" for place, part in parts.items() for note in differences(part.sweeps)]
    if homeless:
        notes.append(f"on no frontier, as no trial has their model and data set: {', '.join(homeless)}")
    return Places(parts, tuple(notes))


def place_stem(name: str, place: Place) -> str:
    """The stem of the files of a figure on one place."""
    return "_".join("".join(c if c.isalnum() or c in "-_" else "-" for c in word) for word in (name, *place))


def _inside(sources: Sources, place: Place, foreign: Mask) -> Mask:
    """Which trials are about ``place``; shape (trials,)."""
    trials = sources.table.trials
    mask = np.ones(len(trials), dtype=bool)
    for column, value in zip(("model", "dataset"), place, strict=True):
        given = trials[column].to_numpy(dtype=object)
        mask &= np.asarray(given == value, dtype=bool) | (foreign & np.asarray(given == "", dtype=bool))
    return mask


def _part(sources: Sources, mask: Mask, *, alone: bool) -> Sources:
    """The trials of ``mask`` with the baseline and the bounds of the sweeps that they are from."""
    table = sources.table
    part = TrialTable(table.trials[mask], table.history, table.spec_columns, table.notes)
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
