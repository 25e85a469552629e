"""The table of all trials in a report, and the course of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.pareto_json import plain
from analysis.frontier.trade_off import Objective
from analysis.tables.trial_table import TrialTable
from analysis.words import number, settings_in_words, varying_columns

_MOST_POINTS = 300
_BUDGET = 12_000
"""Reports of all courses together, of a dozen numbers each: what keeps the page under some megabytes."""
_COURSES = (
    *("epoch", "lr", "c_t", "grad_norm_retain", "grad_norm_forget", "grad_cosine"),
    *("forget_loss", "retain_loss", "verbmem", "utility"),
)
_HIDDEN_SPEC = ("model_path", "target_path", "data_dir", "target_key")
_METRICS = (
    *("forget_loss", "retain_loss", "verbmem", "utility", "truth_ratio", "forget_truth_ratio"),
    *("forget_accuracy", "retain_accuracy", "test_accuracy", "wall_seconds"),
)
_HEADINGS = {"trial_id": "trial", "wall_seconds": "seconds", "on_front": "frontier"}


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; ``numeric`` columns are right-aligned and sorted by value."""

    name: str
    heading: str
    numeric: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown, and what is sorted by (empty: last)."""

    text: str
    key: str


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One row; ``anchor`` is where the points of the figure lead, ``summary`` what they say when pointed at."""

    anchor: str
    trial_id: str
    status: str
    on_front: bool
    summary: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class TrialsSection:
    """``same`` holds the settings all trials share, as (name, value)."""

    columns: tuple[Column, ...]
    lines: tuple[TrialLine, ...]
    same: tuple[tuple[str, str], ...]


def anchors(table: TrialTable) -> dict[str, str]:
    """The anchor of each trial's row on the page, by trial id."""
    return {trial_id: f"trial-{i}" for i, trial_id in enumerate(table.trials["trial_id"])}


def trials_section(table: TrialTable, objectives: Sequence[Objective], on_front: Collection[str]) -> TrialsSection:
    """Every trial, those ``on_front`` marked; the settings that differ between trials as columns, the others once."""
    trials = table.trials
    shown_spec = [name for name in table.spec_columns if name not in _HIDDEN_SPEC]
    varying = varying_columns(trials, shown_spec)
    settings = list(dict.fromkeys(["method", *varying]))
    extra = [objective.column for objective in objectives if objective.column not in (*_METRICS, *varying)]
    metrics = [name for name in (*extra, *_METRICS) if name in trials.columns and not trials[name].isna().all()]
    names = ["trial_id", "status", "on_front", *settings, *metrics]
    frame = trials.assign(on_front=["yes" if trial_id in on_front else "" for trial_id in trials["trial_id"]])
    columns = tuple(
        Column(name, _HEADINGS.get(name, name.replace("_", " ")), bool(pd.api.types.is_numeric_dtype(frame[name])))
        for name in names
    )
    places = anchors(table)
    lines = tuple(
        TrialLine(
            anchor=places[row["trial_id"]],
            trial_id=str(row["trial_id"]),
            status=str(row["status"]),
            on_front=row["trial_id"] in on_front,
            summary=settings_in_words(row, varying),
            cells=tuple(_cell(row[column.name], column) for column in columns),
        )
        for _, row in frame.iterrows()
    )
    same = tuple(
        (name, number(plain(trials[name].iloc[0])))
        for name in shown_spec
        if len(trials) and name not in varying and plain(trials[name].iloc[0]) is not None
    )
    return TrialsSection(columns, lines, same)


def page_data(table: TrialTable) -> dict[str, object]:
    """What the page's script draws a trial's details from: by trial id, its settings, its error and its course.

    A course has at most 300 reports (fewer, not below 30, where there are more than 40 trials), evenly chosen, the
    first and the last always among them.
    """
    courses = {str(trial_id): rows for trial_id, rows in table.history.groupby("trial_id")}
    varying = varying_columns(table.trials, table.spec_columns)
    most = max(30, min(_MOST_POINTS, _BUDGET // max(1, len(table.trials))))
    return {
        str(row["trial_id"]): {
            "settings": {name: plain(row[name]) for name in varying if plain(row[name]) is not None},
            "spec_hash": plain(row["spec_hash"]),
            "checkpoint": plain(row["checkpoint"]),
            "error": plain(row["error"]),
            "course": dict(_course(courses[row["trial_id"]], most)) if row["trial_id"] in courses else {},
        }
        for _, row in table.trials.iterrows()
    }


def _cell(value: object, column: Column) -> Cell:
    known = plain(value)
    if known is None:
        return Cell("" if column.name == "on_front" else "–", "")
    return Cell(number(known), repr(float(known)) if isinstance(known, (int, float)) else str(known))


def _course(rows: pd.DataFrame, most: int) -> Iterator[tuple[str, object]]:
    if len(rows) > most:
        rows = rows.iloc[np.linspace(0, len(rows) - 1, most).round().astype(int)]
    yield "step", plain(rows["step"].tolist())
    for name in _COURSES:
        if name in rows.columns and pd.api.types.is_numeric_dtype(rows[name]) and not rows[name].isna().all():
            # Five digits draw the same line and halve the page.
            yield name, plain([float(f"{value:.5g}") for value in rows[name]])
