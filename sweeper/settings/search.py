"""Read the options of a sweep's search: objectives, scheduler, points to try first, and stopping rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from search_spaces.messages import counted
from search_spaces.points import Point, PointError, params_of_point, read_points
from search_spaces.space import Space
from sweeper.settings.fields import NO_SCHEDULER
from sweeper.settings.objectives import Objective, ObjectiveError, parse_objectives, unmeasured, with_objectives
from sweeper.settings.sources import Options
from sweeper.settings.sweep_settings import LAST
from trainables.spec import TrialSpec


def read_objectives(options: Options, base: TrialSpec) -> tuple[tuple[Objective, ...], TrialSpec]:
    """Return the objectives, or () if they cannot be read, and ``base`` with the metrics that they need."""
    try:
        objectives = parse_objectives(options["objectives"])
    except ObjectiveError as error:
        options.add(str(error), "objectives")
        return (), base
    if wrong := unmeasured(objectives, base.dataset):
        options.extend(wrong, "objectives")
        return objectives, base
    return objectives, replace(base, metrics=with_objectives(base.metrics, objectives))


def read_scheduling(options: Options, *, epochs: int, eval_every: int, blind: bool) -> dict[str, Any]:
    """Return the scheduler's settings by name, checked for trials of ``epochs`` epochs.

    By default, no trial is stopped early if each configuration is repeated, if the search is a grid, if only last
    epochs are candidates, or if ``blind`` is true. A blind sweep measures its objectives only when a trial ends, so a
    stopped trial would have no objectives. If not every epoch is evaluated, the first comparison is after the first
    evaluated epoch.
    """
    asked = [name for name in ("grace", "reduction", "stopping") if options.asked(name) is not None]
    grace = options["grace"] if "grace" in asked else max(options["grace"], eval_every)
    scheduler = options.asked("scheduler")
    if scheduler is None:
        repeated = options["sampler"] == "grid" or (options["seeds"] or 1) > 1
        whole = blind or repeated or (options["candidates"] or LAST) == LAST
        scheduler = NO_SCHEDULER if whole or (epochs <= grace and not asked) else "moasha"
    if scheduler == NO_SCHEDULER and asked:
        options.reject("nothing-compared", "scheduler", flags=", ".join(f"--{name}" for name in asked))
    elif scheduler != NO_SCHEDULER and grace >= epochs:
        options.reject("grace-too-long", "grace", grace=grace, epochs=epochs, scheduler=scheduler)
    elif scheduler != NO_SCHEDULER and eval_every > 0 and grace % eval_every:
        options.reject("grace-unevaluated", "grace", grace=grace, every=eval_every)
    return {"scheduler": scheduler, "grace": grace, "reduction": options["reduction"], "stopping": options["stopping"]}


def epochs_per_trial(scheduling: Mapping[str, Any], epochs: int, rungs: Callable[..., Sequence[int]]) -> float:
    """Return the minimum average number of epochs per trial, assuming one in ``reduction`` trials passes each rung."""
    if scheduling["scheduler"] == NO_SCHEDULER:
        return epochs
    grace, reduction = scheduling["grace"], scheduling["reduction"]
    ends = [0, *rungs(epochs=epochs, grace=grace, reduction=reduction), epochs]
    return float(sum((end - begin) / reduction**index for index, (begin, end) in enumerate(itertools.pairwise(ends))))


def read_enqueue(options: Options, space: Space | None, trials: int | None) -> list[Point]:
    """Return the points to try first. Add a problem for each point that is not in the space."""
    points: list[Point] = []
    for text in options["enqueue"] or ():
        try:
            points += (found := read_points(text))
            for point in found:
                if space is not None:
                    params_of_point(space, point)
        except PointError as error:
            options.reject("enqueue-invalid", "enqueue", text=text, reason=error)
    if points and options["sampler"] == "grid":
        options.reject("enqueue-grid", "enqueue")
    runs = len(points) * (options["seeds"] or 1)
    if trials is not None and runs > trials > 0:
        size = {"points": counted(len(points), "point"), "runs": counted(runs, "run")}
        options.reject("enqueue-too-many", "enqueue", trials=trials, **size)
    return points


def check_search(options: Options, parse_until: Callable[[str], object], learning: Collection[str]) -> None:
    """Add a problem for an invalid stopping rule, and for a warm start with a sampler that is not in ``learning``."""
    if options["until"] is not None:
        try:
            parse_until(options["until"])
        except ValueError as error:
            options.add(str(error), "until")
    if options["warm_start"] and options["sampler"] not in learning:
        options.reject("sampler-learns-nothing", "warm_start", sampler=options["sampler"], learning=", ".join(learning))
