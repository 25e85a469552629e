"""Read the options of a sweep's search: objectives, scheduler, points to try first, and stopping rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from search_spaces.messages import counted
from search_spaces.points import Point, PointError, params_of_point, read_points
from search_spaces.space import Space
from sweeper.settings.fields import DEFAULT_OBJECTIVES, NO_SCHEDULER
from sweeper.settings.objectives import Objective, ObjectiveError, parse_objectives, unmeasured, with_objectives
from sweeper.settings.sources import Options
from sweeper.settings.sweep_settings import LAST
from trainables.spec import TrialSpec

_SCHEDULING = {"scheduler": "moasha", "grace": 1, "reduction": 2, "stopping": "stop"}
"""The best scheduler settings in docs/search.md, for sweeps whose trials can be compared after every epoch."""


def read_objectives(options: Options, base: TrialSpec) -> tuple[tuple[Objective, ...], TrialSpec]:
    """Return the objectives, or () if they cannot be read, and ``base`` with the metrics that they need."""
    try:
        objectives = parse_objectives(options["objectives"] or DEFAULT_OBJECTIVES)
    except ObjectiveError as error:
        options.add(str(error), "objectives")
        return (), base
    if wrong := unmeasured(objectives, base.dataset):
        options.extend(wrong, "objectives")
        return objectives, base
    return objectives, replace(base, metrics=with_objectives(base.metrics, objectives))


def read_scheduling(options: Options, *, epochs: int, eval_every: int, blind: bool) -> dict[str, Any]:
    """Return the scheduler's settings by name, checked for trials of ``epochs`` epochs.

    By default no trial is stopped early if each configuration is repeated, if the search is a grid, if only last
    epochs count, or if the sweep is ``blind``: it measures its objectives only when a trial ends, so a stopped trial
    would have none. If not every epoch is evaluated, the first comparison is after the first evaluated epoch.
    """
    asked = {name: options[name] for name in _SCHEDULING if options.asked(name) is not None}
    repeated = options["sampler"] == "grid" or (options["seeds"] or 1) > 1
    whole = blind or repeated or (options["candidates"] or LAST) == LAST
    defaults: dict[str, Any] = {**_SCHEDULING, "grace": max(1, eval_every)}
    is_set = {"grace", "reduction", "stopping"} & asked.keys()
    if whole or (epochs <= defaults["grace"] and not is_set):
        defaults["scheduler"] = NO_SCHEDULER
    chosen = {**defaults, **asked}
    name, grace = chosen["scheduler"], chosen["grace"]
    if name == NO_SCHEDULER:
        if further := [f"--{item}" for item in asked if item != "scheduler"]:
            text = f"{', '.join(further)}: without a scheduler no trial is compared; give --scheduler moasha"
            options.add(text, "scheduler")
    elif grace >= epochs:
        options.add(
            f"--grace {grace}: trials of {epochs} epochs are never compared; --scheduler {name} needs a grace below "
            "--epochs, so that it can save epochs",
            "grace",
        )
    elif eval_every > 0 and grace % eval_every:
        options.add(
            f"--grace {grace}: trials are compared after epochs that are evaluated; with --eval-every {eval_every} it "
            f"is a multiple of {eval_every}",
            "grace",
        )
    return chosen


def epochs_per_trial(scheduling: Mapping[str, Any], epochs: int, rungs: Callable[..., Sequence[int]]) -> float:
    """Return the minimum average number of epochs per trial, assuming one in ``reduction`` trials passes each rung."""
    if scheduling["scheduler"] == NO_SCHEDULER:
        return epochs
    grace, reduction = scheduling["grace"], scheduling["reduction"]
    ends = [0, *rungs(epochs=epochs, grace=grace, reduction=reduction), epochs]
    return float(sum((end - begin) / reduction**index for index, (begin, end) in enumerate(itertools.pairwise(ends))))


def read_enqueue(options: Options, space: Space | None, trials: int | None) -> list[Point]:
    """Return the points to try first. Note the points that are not in the space."""
    points: list[Point] = []
    for text in options["enqueue"] or ():
        try:
            points += (found := read_points(text))
            for point in found:
                if space is not None:
                    params_of_point(space, point)
        except PointError as error:
            options.add(f"--enqueue {text}: {error}", "enqueue")
    if points and options["sampler"] == "grid":
        options.add("--enqueue: a grid search visits every point of its space; use another sampler", "enqueue")
    runs = len(points) * (options["seeds"] or 1)
    if trials is not None and runs > trials > 0:
        size = f"{counted(len(points), 'point')}, {counted(runs, 'run')} with all seeds"
        options.add(f"--enqueue has {size}, more than --trials {trials}", "enqueue")
    return points


def check_search(options: Options, parse_until: Callable[[str], object], learning: Collection[str]) -> None:
    """Note an invalid stopping rule, and a warm start for a sampler that is not in ``learning``."""
    if options["until"] is not None:
        try:
            parse_until(options["until"])
        except ValueError as error:
            options.add(str(error), "until")
    if options["warm_start"] and options["sampler"] not in learning:
        options.add(
            f"--warm-start: the sampler {options['sampler']} does not learn from trials; use one of "
            f"{', '.join(learning)}",
            "warm_start",
        )
