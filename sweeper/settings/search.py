"""Resolve the options of a search: sampler, scheduler, number of trials, and points to try first."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from search_spaces.common.messages import counted
from search_spaces.parameters import Choice
from search_spaces.points import Point, PointError, params_of_point, read_points
from search_spaces.space import Space
from sweeper.settings.names import LEARNERS, NO_SCHEDULER
from sweeper.settings.objectives import (
    Objective,
    ObjectiveError,
    constraint_problems,
    objective_problems,
    parse_objectives,
    with_objectives,
)
from sweeper.settings.sources import Options
from sweeper.settings.sweep_settings import LAST
from sweeper.settings.until import UntilError, parse_until
from trainables.metrics.registry import LOSS_METRICS
from trainables.spec import TrialSpec

DEFAULT_TRIALS = {True: 16, False: 32}
"""The default number of trials: 16 without a scheduler, and 32 with a scheduler."""
_MAX_DEFAULT_GRID = 1000
"""The maximum number of combinations of listed values for which a grid search can be the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of a search that depend on more than one option."""

    sampler: str
    scheduler: str
    grace: int
    trials: int
    enqueue: tuple[Point, ...]


def read_search(options: Options, space: Space | None, base: TrialSpec) -> tuple[SearchSettings, TrialSpec]:
    """Return the settings of the search, and a copy of ``base`` with the metrics that the objectives need.

    Problems found here are added to ``options``. ``space`` is None if problems prevented building the search space.
    """
    # In a small space, other samplers would propose the same points repeatedly.
    sampler = "grid" if _defaults_to_grid(options, space) else options["sampler"]
    objectives, base = _objectives(options, base)
    has_only_losses = all(item.column in LOSS_METRICS for item in objectives)
    lacks_epoch_values = base.metrics_every != 1 and not has_only_losses
    scheduler, grace = _scheduling(options, base, sampler=sampler, lacks_epoch_values=lacks_epoch_values)
    trials = options["trials"]
    if not options.problems and space is not None and sampler == "grid":
        trials = _grid_trials(options, space)
    points = _points(options, space, trials, sampler=sampler)
    options.extend(constraint_problems(options["constraint"], base), "constraint")
    try:
        parse_until(options["until"])
    except UntilError as error:
        options.add(str(error), "until")
    if options["warm_start"] and sampler not in LEARNERS:
        text = f"--warm-start: the sampler {sampler} does not learn from trials; use one of {', '.join(LEARNERS)}"
        options.add(text, "warm_start")
    is_scheduled = scheduler != NO_SCHEDULER
    has_only_epoch_budget = not trials and options["epoch_budget"]
    if has_only_epoch_budget and not options.problems:
        mean_epochs = float(base.epochs)
        if is_scheduled:
            mean_epochs = _epochs_per_trial(base.epochs, grace=grace, reduction=options["reduction"])
        trials = math.ceil(options["epoch_budget"] / mean_epochs)
    trials = trials or DEFAULT_TRIALS[not is_scheduled]
    search = SearchSettings(sampler=sampler, scheduler=scheduler, grace=grace, trials=trials, enqueue=tuple(points))
    return search, base


def _defaults_to_grid(options: Options, space: Space | None) -> bool:
    """Return whether the search is a grid search by default, because the space has few points.

    If one of --sampler, --trials, --enqueue, --warm-start and --epoch-budget is given, return False.
    """
    search_options = ("sampler", "trials", "enqueue", "warm_start", "epoch_budget")
    if space is None or any(options.raw.get(name) for name in search_options):
        return False
    sizes = [len(item.values) if isinstance(item, Choice) else math.inf for item in space.parameters]
    return math.prod(sizes) <= _MAX_DEFAULT_GRID and len(space.grid()) <= min(DEFAULT_TRIALS.values())


def _objectives(options: Options, base: TrialSpec) -> tuple[tuple[Objective, ...], TrialSpec]:
    try:
        objectives = parse_objectives(options["objectives"])
    except ObjectiveError as error:
        options.add(str(error), "objectives")
        return (), base
    if problems := objective_problems(objectives, base.dataset):
        options.extend(problems, "objectives")
        return objectives, base
    return objectives, replace(base, metrics=with_objectives(base.metrics, objectives))


def _scheduling(options: Options, base: TrialSpec, *, sampler: str, lacks_epoch_values: bool) -> tuple[str, int]:
    """Return the scheduler, and the number of epochs after which the scheduler first compares trials."""
    epochs = base.epochs
    eval_every = base.eval_every
    explicit_options = [name for name in ("grace", "reduction", "stopping") if options.explicit(name) is not None]
    grace = options["grace"]
    if "grace" not in explicit_options:
        grace = max(grace, eval_every)  # trials are first compared after the first evaluated epoch
    scheduler = options.explicit("scheduler")
    if scheduler is None:
        is_repeated = sampler == "grid" or options["seeds"] > 1
        has_only_last_epochs = options["candidates"] in (None, LAST)
        # Without objectives after every epoch, a trial that is stopped early might have no objective values.
        needs_all_epochs = lacks_epoch_values or is_repeated or has_only_last_epochs
        is_too_short = epochs <= grace and not explicit_options
        scheduler = NO_SCHEDULER if needs_all_epochs or is_too_short else "moasha"
    if scheduler == NO_SCHEDULER and explicit_options:
        flags = ", ".join(f"--{name}" for name in explicit_options)
        text = f"no scheduler compares trials, so {flags} would have no effect; give --scheduler moasha"
        options.add(text, "scheduler")
    elif scheduler != NO_SCHEDULER and grace >= epochs:
        options.add(
            f"--grace {grace}: trials end after {epochs} epochs and would never be compared; with --scheduler "
            f"{scheduler}, --grace must be below --epochs",
            "grace",
        )
    elif scheduler != NO_SCHEDULER and eval_every > 0 and grace % eval_every:
        options.add(
            f"--grace {grace}: trials can be compared only after evaluated epochs; with --eval-every {eval_every}, "
            f"--grace must be a multiple of {eval_every}",
            "grace",
        )
    return scheduler, grace


def _grid_trials(options: Options, space: Space) -> int | None:
    trials: int | None = options["trials"]
    try:
        size = len(space.grid()) * int(options["seeds"])
    except ValueError as error:
        options.add(f"--sampler grid: {error}", "sampler")
        return None
    if trials is not None and trials > size:
        text = f"--trials {trials}: the grid has only {size} trials; give at most {size}, or leave out --trials"
        options.add(text, "trials")
    return trials if trials is not None else size


def rungs(*, epochs: int, grace: int, reduction: int) -> tuple[int, ...]:
    """Return the epochs after which trials are compared: all ``grace * reduction**k`` below ``epochs``."""
    rung_epochs = []
    while grace < epochs:
        rung_epochs.append(grace)
        grace *= reduction
    return tuple(rung_epochs)


def _epochs_per_trial(epochs: int, *, grace: int, reduction: int) -> float:
    """Return the mean number of epochs per trial if only one in ``reduction`` trials passes each rung."""
    bounds = [0, *rungs(epochs=epochs, grace=grace, reduction=reduction), epochs]
    lengths = [end - begin for begin, end in itertools.pairwise(bounds)]
    return float(sum(length / reduction**k for k, length in enumerate(lengths)))


def _points(options: Options, space: Space | None, trials: int | None, *, sampler: str) -> list[Point]:
    points: list[Point] = []
    for text in options["enqueue"] or ():
        try:
            new_points = read_points(text)
            points += new_points
            for point in new_points:
                if space is not None:
                    params_of_point(space, point)
        except PointError as error:
            options.add(f"--enqueue {text}: {error}", "enqueue")
    if points and sampler == "grid":
        text = "--enqueue has no effect in a grid search, which visits every point; use another sampler"
        options.add(text, "enqueue")
    runs = len(points) * options["seeds"]
    if trials is not None and runs > trials > 0:
        counts = f"{counted(len(points), 'point')}, which need {counted(runs, 'run')} over all seeds"
        options.add(f"--enqueue has {counts}, but --trials is only {trials}", "enqueue")
    return points
