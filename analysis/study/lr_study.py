"""Build a complete learning-rate study from the tables of one or more sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.study.collapse import collapse, with_collapse
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.judging import verdicts_data, without_tests
from analysis.study.lr_grid import LrGrid, lr_grid
from analysis.study.sensitivity import Sensitivity, rate_sensitivity
from analysis.study.verdict import NoVerdict, Verdict, is_primary_question
from analysis.tables.note import Note, note
from analysis.tables.sources import Sources, read_source
from search_spaces.common.messages import no_sweep
from search_spaces.common.objective import Objective


@dataclass(frozen=True, slots=True)
class LrStudy:
    """The results of a learning-rate study.

    Attributes:
        notes: the notes on trials that were left out, and on differences between the sweeps.
        no_verdicts: the reason for each method and AutoLR variant without a verdict.
        primary: the primary question (:func:`is_primary_question`); "" if no question was named.
        afterwards: a note, if the objectives were chosen after the results were known; otherwise None.
    """

    grid: LrGrid
    sensitivity: tuple[Sensitivity, ...]
    verdicts: tuple[Verdict, ...]
    fronts: tuple[ArmFronts, ...]
    notes: tuple[Note, ...]
    no_verdicts: tuple[NoVerdict, ...] = ()
    primary: str = ""
    afterwards: Note | None = None

    @property
    def compared(self) -> tuple[Sensitivity, ...]:
        """The sensitivities of the methods with at least two fixed rates that have complete fronts on a common seed."""
        return tuple(item for item in self.sensitivity if len(item.rates) > 1 and item.has_front)

    @property
    def answers(self) -> list[Verdict | NoVerdict]:
        """The verdicts, and the reasons for missing verdicts. The answer to the primary question comes first."""
        return sorted((*self.verdicts, *self.no_verdicts), key=lambda item: not self.is_primary(item))

    @property
    def primary_was_run(self) -> bool:
        """Whether the study has runs for the primary question."""
        return any(map(self.is_primary, self.answers))

    def subject(self, verdict: Verdict) -> str:
        """Return a verdict's method and AutoLR variant as text. Add the task if the study has several tasks."""
        method_task = verdict.method_task
        return f"{method_task if self._has_several_tasks else method_task.method}, AutoLR {verdict.variant}"

    def short_subject(self, item: Verdict | NoVerdict) -> str:
        """Return the method as text. Add the AutoLR variant and the task only if the study has several of them."""
        variants = {other.variant for other in self.answers if other.variant}
        name = str(item.method_task) if self._has_several_tasks else item.method_task.method
        variant = f" ({item.variant})" if len(variants) > 1 and item.variant else ""
        return f"{name}{variant}" + (" (the primary question)" if self.is_primary(item) else "")

    def is_primary(self, item: Verdict | NoVerdict) -> bool:
        return is_primary_question(self.primary, item.method_task.method, item.variant)

    @property
    def _has_several_tasks(self) -> bool:
        return len({item.task for item in self.grid.method_tasks}) > 1


def read_study(folders: Sequence[Path], objectives: Sequence[Objective] = ()) -> LrStudy:
    """Read the study in one or more sweep folders. The trials of all folders are combined.

    Args:
        objectives: objectives that replace the objectives of the sweeps.

    Raises:
        AnalysisError: a folder has no sweep, a sweep has no objectives yet, or the objectives of the sweeps differ.
    """
    for folder in folders:
        if not (folder / "sweep.json").is_file():
            raise AnalysisError(no_sweep(folder))
    sources = [read_source(folder, sweep=f"{index + 1}: {folder}") for index, folder in enumerate(folders)]
    for folder, source in zip(folders, sources, strict=True):
        if not source.sweep.objectives:
            raise AnalysisError(f"{folder} has no objectives yet, because its target model is still being made")
    searched = {_directed(source.sweep.objectives) for source in sources}
    if not objectives or searched == {_directed(objectives)}:
        return study_of(sources)
    study = study_of([replace(source, sweep=replace(source.sweep, objectives=tuple(objectives))) for source in sources])
    afterwards = note("objectives_chosen_afterwards", judged=_directed(objectives), searched=tuple(sorted(searched)))
    return replace(study, verdicts=tuple(map(without_tests, study.verdicts)), afterwards=afterwards)


def _directed(objectives: Iterable[Objective]) -> str:
    return ", ".join(f"{item.name} ({item.direction})" for item in objectives)


def study_in(sources: Sources) -> LrStudy | None:
    """Return the study for a report; None if the sources contain no study.

    The sources contain a study if all sweeps use the sampler ``grid`` and have objectives, and if there is a verdict or
    a method with at least two fixed rates.
    """
    # In a search, every trial has a different learning rate, so no rate has a Pareto front.
    all_grids = all(sweep.settings.get("sampler") == "grid" for sweep in sources.sweeps)
    if not sources.sweeps or not all_grids or not sources.sweep.objectives:
        return None
    study = study_of([replace(source, table=replace(source.table, notes=())) for source in sources.each_sweep])
    # Rates without a shared seed are included, because the report must give the reason for a missing verdict.
    return study if study.verdicts or any(len(item.rates) > 1 for item in study.sensitivity) else None


def study_of(sources: Sequence[Sources]) -> LrStudy:
    """Build the study from the sources of one or more sweeps. The sweeps must have the same objectives."""
    varied = {file.seeds_vary for source in sources for file in source.sweeps} or {"order"}
    grid = lr_grid(
        [(with_collapse(source), source.sweep.objectives) for source in sources],
        seeds_vary=varied.pop() if len(varied) == 1 else "",
    )
    notes = [*(item for source in sources for item in source.table.notes), *grid.notes]
    # A primary question is valid only if all sweeps named the same question before their results were known.
    questions = dict.fromkeys(
        str(file.settings.get("primary") or "").strip() for source in sources for file in source.sweeps
    )
    primary = next(iter(questions)) if len(questions) == 1 else ""
    if len(questions) > 1:
        notes.append(note("different_primary_questions", named=tuple(questions)))
    results = verdicts_data(grid, primary)
    verdicts = tuple(item for item in results if isinstance(item, Verdict))
    no_verdicts = tuple(item for item in results if isinstance(item, NoVerdict))
    return LrStudy(grid, rate_sensitivity(grid), verdicts, arm_fronts(grid), tuple(notes), no_verdicts, primary)


def fronts_table(grid: LrGrid) -> pd.DataFrame:
    """Return the content of lr_study.csv: a row for each Pareto front, with its hypervolume in every reference box."""
    names = ("model", "dataset", "apart", "method", "auto_lr", "lr", "seed", "trials", "missing", "collapsed_runs")
    rows = []
    for front in grid.fronts:
        method_task, collapsed = front.method_task, collapse([[front]])
        rows.append(
            (
                *(*method_task.task, method_task.method, front.variant or "off", front.lr, front.seed, len(front.runs)),
                *(len(front.missing), "" if collapsed.runs_unknown else collapsed.runs),
                *map(front.hypervolume, ("", *grid.boxes)),
            )
        )
    boxes = (f"hypervolume_{box.replace(' ', '_')}" for box in grid.boxes)
    return pd.DataFrame(rows, columns=[*names, "hypervolume", *boxes])
