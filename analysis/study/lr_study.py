"""Build a complete learning-rate study from the tables of one or more sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.frontier import hypervolume
from analysis.study.endpoints import RunFacts, quality_measure, run_facts
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.judging import is_primary, verdicts_data
from analysis.study.lr_grid import LrGrid, lr_grid
from analysis.study.paired import least_seeds
from analysis.study.sensitivity import Sensitivity, rate_sensitivity
from analysis.study.units import arms_of
from analysis.study.verdict import NoVerdict, Verdict
from analysis.tables.note import Note, note
from analysis.tables.sources import Sources, read_source
from analysis.tables.tasks import tasks_of
from analysis.tables.trial_table import TrialTable
from search_spaces.common.messages import no_sweep
from search_spaces.common.objective import Objective


@dataclass(frozen=True, slots=True)
class LrStudy:
    """The results of a learning-rate study.

    Attributes:
        runs: the endpoints of each run.
        notes: the notes on trials that were left out, and on differences between the sweeps.
        no_verdicts: the reason for each method, configuration and automatic rate without a verdict.
        primary: the primary comparison (:func:`is_primary`); "" if none was named.
    """

    grid: LrGrid
    runs: tuple[RunFacts, ...]
    sensitivity: tuple[Sensitivity, ...]
    verdicts: tuple[Verdict, ...]
    fronts: tuple[ArmFronts, ...]
    notes: tuple[Note, ...]
    no_verdicts: tuple[NoVerdict, ...] = ()
    primary: str = ""

    @property
    def compared(self) -> tuple[Sensitivity, ...]:
        """The sensitivities of the methods with at least two fixed rates that have complete fronts on a common seed."""
        return tuple(item for item in self.sensitivity if len(item.rates) > 1 and item.has_front)

    @property
    def undecidable(self) -> bool:
        """Whether no comparison has enough seeds for a decision, whatever the results are."""
        return all(len(item.seeds) < least_seeds(item.comparisons) for item in self.verdicts)

    @property
    def answers(self) -> list[Verdict | NoVerdict]:
        """The verdicts, and the reasons for missing verdicts. The answer to the primary question comes first."""
        return sorted((*self.verdicts, *self.no_verdicts), key=lambda item: not is_primary(self.primary, item))

    @property
    def primary_was_run(self) -> bool:
        """Whether the study has runs for the primary comparison."""
        return any(is_primary(self.primary, item) for item in self.answers)


def read_study(folders: Sequence[Path], objectives: Sequence[Objective] = ()) -> LrStudy:
    """Read the study in one or more sweep folders. The trials of all folders are combined.

    Args:
        objectives: objectives that replace those of the sweeps. They change the hypervolumes, not the verdicts.

    Raises:
        AnalysisError: a folder has no sweep, a sweep has no objectives yet, the objectives of the sweeps differ, or the
            folders have different tasks.
    """
    for folder in folders:
        if not (folder / "sweep.json").is_file():
            raise AnalysisError(no_sweep(folder))
    sources = [read_source(folder, sweep=f"{index + 1}: {folder}") for index, folder in enumerate(folders)]
    for folder, source in zip(folders, sources, strict=True):
        if not source.sweep.objectives:
            raise AnalysisError(f"{folder} has no objectives yet, because its target model is still being made")
    table = TrialTable.merge([source.table for source in sources])
    tasks = dict.fromkeys(tasks_of(table, seeds_vary=_seeds_vary(sources)).of_trials)
    if len(folders) > 1 and len(tasks) > 1:
        raise AnalysisError(
            f"the studies are on different tasks ({'; '.join(map(str, tasks))}): evaluate each study alone "
            "(lr-study --from DIR), or show all studies on one page (report DIR DIR --out DIR)"
        )
    if objectives:
        sources = [replace(item, sweep=replace(item.sweep, objectives=tuple(objectives))) for item in sources]
    return study_of(sources)


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
    grid = lr_grid([(source.table, source.sweep.objectives) for source in sources], seeds_vary=_seeds_vary(sources))
    notes = [*(item for source in sources for item in source.table.notes), *grid.notes]
    # A primary comparison is valid only if all sweeps named the same one before their results were known.
    questions = dict.fromkeys(
        str(file.settings.get("primary") or "").strip() for source in sources for file in source.sweeps
    )
    primary = next(iter(questions)) if len(questions) == 1 else ""
    if len(questions) > 1:
        notes.append(note("different_primary_questions", named=tuple(questions)))
    measure = quality_measure(sources)
    runs = run_facts(grid.runs, sources, measure)
    results = verdicts_data(
        arms_of(runs, grid.configuration_columns),
        measure,
        columns=grid.columns,
        seeds_vary=grid.seeds_vary,
        primary=primary,
    )
    verdicts = tuple(item for item in results if isinstance(item, Verdict))
    no_verdicts = tuple(item for item in results if isinstance(item, NoVerdict))
    sensitivity, fronts = rate_sensitivity(grid), arm_fronts(grid)
    return LrStudy(grid, tuple(runs), sensitivity, verdicts, fronts, tuple(notes), no_verdicts, primary)


def _seeds_vary(sources: Sequence[Sources]) -> str:
    varied = {file.seeds_vary for source in sources for file in source.sweeps} or {"order"}
    return varied.pop() if len(varied) == 1 else ""


def runs_table(study: LrStudy) -> pd.DataFrame:
    """Return the content of lr_study.csv: a row for each run, with its endpoints and its hypervolume."""
    rows = []
    for facts in study.runs:
        run, task = facts.run, facts.run.method_task.task
        settings = dict(zip(study.grid.configuration_columns, run.configuration, strict=True))
        place = {**task._asdict(), "method": run.method_task.method, **settings}
        arm = {"rule": run.variant or "off", "lr": run.lr, "seed": run.seed, "status": run.row["status"]}
        volume = math.nan if run.costs is None else hypervolume([run.costs])
        names = ("success", "collapsed", "quality", "seconds", "accepted", "updates")
        endpoints = {name: getattr(facts, name) for name in names}
        rows.append({**place, **arm, **endpoints, "hypervolume": 0.0 if run.diverged else volume})
    return pd.DataFrame(rows)
