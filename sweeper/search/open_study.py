"""A sweep's study as it is opened: with bounds and constraints, and with what it is to know before its first trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from search_spaces.points import params_of_point
from search_spaces.values import Value
from sweeper.search.study import Prior, SweepStudy
from sweeper.search.warm_start import PreviousSweep, transfer
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.study_journal import open_journal
from trainables.modality import dataset_modality
from trainables.target.target import Target


def open_study(out: Path, settings: SweepSettings, target: Target, *, console: Console) -> SweepStudy:
    """The study of the sweep in ``out``; says on the console what a new one takes from earlier sweeps."""
    unit = dataset_modality(settings.base.dataset).unit
    objectives = axes(settings.parsed_objectives, math.log(target.vocabulary_size), unit=unit)
    study = SweepStudy(
        open_journal(out),
        space=settings.space,
        objectives=objectives,
        sampler=settings.sampler,
        trials=settings.trials,
        seeds=settings.all_seeds,
        seed=settings.seed,
        extension=settings.extension,
        constraints=settings.parsed_constraints,
        baseline=target.baseline,
    )
    if study.has_begun or not (settings.enqueue or settings.warm_start):
        return study
    points: list[Mapping[str, Value]] = [params_of_point(settings.space, point) for point in settings.enqueue]
    priors: list[Prior] = []
    # Half of what is left is the search's own.
    most = max(1, (settings.trials // settings.seeds - len(points)) // 2)
    for folder in map(Path, settings.warm_start):
        found = transfer(
            PreviousSweep.read(folder), settings, objectives, target_key=target.key, baseline=target.baseline, most=most
        )
        console.print(found.words, highlight=False, markup=False, soft_wrap=True)
        points += found.points
        priors += found.priors
        most -= len(found.points)
    study.begin(points=points, priors=priors)
    return study
