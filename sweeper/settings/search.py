"""Resolve the options of a search: sampler, scheduler, number of trials, and points to try first."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from search_spaces.builtin import PAPER
from search_spaces.common.messages import counted
from search_spaces.common.objective import Objective
from search_spaces.parameters import Choice
from search_spaces.points import Point, PointError, params_of_point, read_points
from search_spaces.space import Space
from sweeper.settings.keep import KeepError, parse_keep
from sweeper.settings.names import LEARNERS, NO_SCHEDULER
from sweeper.settings.objectives import (
    ObjectiveError,
    constraint_problems,
    objective_problems,
    parse_objectives,
    with_objectives,
)
from sweeper.settings.options import ParetoFields, SweepOptions
from sweeper.settings.reading import Problem, about
from sweeper.settings.sweep_settings import LAST
from sweeper.settings.until import UntilError, parse_until
from trainables.attacks.registry import AttackError, parse_attacks
from trainables.metrics.registry import METRICS
from trainables.spec import TrialSpec

DEFAULT_TRIALS = {True: 16, False: 32}
"""The default number of trials: 16 without a scheduler, and 32 with a scheduler."""
_MAX_DEFAULT_GRID = 1000
"""The maximum number of combinations of listed values for which a grid search can be the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of a search that depend on more than one option."""

    sampler: str
    candidates: str
    scheduler: str
    grace: int
    trials: int
    enqueue: tuple[Point, ...]


_GRID_OF_STUDY = ParetoFields(sampler="grid", candidates=LAST)
"""How a learning-rate study is searched."""


def read_search(
    options: SweepOptions, space: Space | None, base: TrialSpec, *, is_valid: bool
) -> tuple[SearchSettings, TrialSpec, list[Problem]]:
    """Return the settings of the search, a copy of ``base`` with the metrics of the objectives, and the problems.

    ``space`` is None if problems prevented building the search space. ``is_valid`` tells whether no problem was found
    before.
    """
    search = options if isinstance(options, ParetoFields) else _GRID_OF_STUDY
    is_paper = options.space == PAPER
    # In a small space, other samplers would propose the same points repeatedly.
    sampler = "grid" if is_paper or _defaults_to_grid(options, space) else search.sampler
    candidates = LAST if is_paper and "candidates" not in options.raw else search.candidates
    problems = _paper_problems(options, search) if is_paper else []
    objectives: tuple[Objective, ...] = ()
    try:
        objectives = parse_objectives(options.objectives)
    except ObjectiveError as error:
        problems += about("objectives", str(error))
    unmeasured = about("objectives", *objective_problems(objectives, base.dataset))
    problems += unmeasured
    if not unmeasured:
        base = replace(base, metrics=with_objectives(base.metrics, objectives))
    come_with_losses = all(METRICS[item.column].comes_with_losses for item in objectives)
    # Without objectives after every epoch, a trial that is stopped early might have no objective values.
    lacks_epoch_values = base.metrics_every != 1 and not come_with_losses
    is_repeated = sampler == "grid" or options.seeds > 1
    scheduler, grace, scheduling_problems = _scheduling(
        options, base, needs_all_epochs=lacks_epoch_values or is_repeated or candidates == LAST
    )
    problems += scheduling_problems
    trials = search.trials
    if is_valid and not problems and space is not None and sampler == "grid":
        trials, grid_problems = _grid_trials(options, space, trials)
        problems += grid_problems
    points, point_problems = _points(options, space, trials, sampler=sampler)
    problems += point_problems
    attacks, attack_problems = read_attacks(search.attacks)
    problems += attack_problems
    if attacks and candidates == LAST:
        text = "attacks are measured on epochs, but only last epochs of trials are candidates: give --candidates all"
        problems += about("attacks", f"--attacks {search.attacks}: {text}, or leave out --attacks")
    problems += about("constraint", *constraint_problems(options.constraints, base, attacks))
    try:
        parse_until(search.until)
    except UntilError as error:
        problems += about("until", str(error))
    try:
        parse_keep(options.keep_checkpoints)
    except KeepError as error:
        problems += about("keep_checkpoints", str(error))
    if search.warm_start and sampler not in LEARNERS:
        text = f"--warm-start: the sampler {sampler} does not learn from trials; use one of {', '.join(LEARNERS)}"
        problems += about("warm_start", text)
    is_scheduled = scheduler != NO_SCHEDULER
    if not trials and search.epoch_budget and is_valid and not problems:
        mean_epochs = float(base.epochs)
        if is_scheduled:
            mean_epochs = _epochs_per_trial(base.epochs, grace=grace, reduction=options.reduction)
        trials = math.ceil(search.epoch_budget / mean_epochs)
    settings = SearchSettings(
        sampler=sampler,
        candidates=candidates,
        scheduler=scheduler,
        grace=grace,
        trials=trials or DEFAULT_TRIALS[not is_scheduled],
        enqueue=tuple(points),
    )
    return settings, base, problems


def read_attacks(text: str) -> tuple[tuple[str, ...], list[Problem]]:
    """Return the names of the attacks in the value of ``--attacks``, and the problems."""
    try:
        return parse_attacks(text), []
    except AttackError as error:
        return (), about("attacks", f"--attacks {text}: {error}")


def _paper_problems(options: SweepOptions, search: ParetoFields) -> list[Problem]:
    """Return the problems with options that would search the paper's space in another way than the paper."""
    remedy = "leave out {flag}, or replace --space paper by the values to search (--lr, --c, --epochs)"
    problems = []
    for name, value, expected in (("sampler", search.sampler, "grid"), ("scheduler", options.scheduler, NO_SCHEDULER)):
        if name in options.raw and value != expected:
            flag = f"--{name} {value}"
            text = f"--space {PAPER} is a grid of all methods, learning rates and values of c without a scheduler, got "
            problems += about(name, f"{text}{flag}: {remedy.format(flag=flag)}")
    return problems


def _defaults_to_grid(options: SweepOptions, space: Space | None) -> bool:
    """Return whether the search is a grid search by default, because the space has few points.

    If one of --sampler, --trials, --enqueue, --warm-start and --epoch-budget is given, return False.
    """
    if space is None or not {"sampler", "trials", "enqueue", "warm_start", "epoch_budget"}.isdisjoint(options.raw):
        return False
    sizes = [len(item.values) if isinstance(item, Choice) else math.inf for item in space.parameters]
    return math.prod(sizes) <= _MAX_DEFAULT_GRID and len(space.grid()) <= min(DEFAULT_TRIALS.values())


def _scheduling(options: SweepOptions, base: TrialSpec, *, needs_all_epochs: bool) -> tuple[str, int, list[Problem]]:
    """Return the scheduler, the number of epochs after which it first compares trials, and problems with both."""
    epochs = base.epochs
    eval_every = base.eval_every
    given_options = [name for name in ("grace", "reduction", "stopping") if name in options.raw]
    grace = options.grace
    if "grace" not in given_options:
        grace = max(grace, eval_every)  # trials are first compared after the first evaluated epoch
    scheduler = options.scheduler
    if scheduler is None:
        is_too_short = epochs <= grace and not given_options
        scheduler = NO_SCHEDULER if needs_all_epochs or is_too_short else "moasha"
    problems: list[Problem] = []
    if scheduler == NO_SCHEDULER and given_options:
        flags = ", ".join(f"--{name}" for name in given_options)
        text = f"no scheduler compares trials, so {flags} would have no effect; give --scheduler moasha"
        problems += about("scheduler", text)
    elif scheduler != NO_SCHEDULER and grace >= epochs:
        text = f"--grace {grace}: trials end after {epochs} epochs and would never be compared"
        problems += about("grace", f"{text}; with --scheduler {scheduler}, --grace must be below --epochs")
    elif scheduler != NO_SCHEDULER and eval_every > 0 and grace % eval_every:
        text = f"trials can be compared only after evaluated epochs; with --eval-every {eval_every}, --grace must be"
        problems += about("grace", f"--grace {grace}: {text} a multiple of {eval_every}")
    return scheduler, grace, problems


def _grid_trials(options: SweepOptions, space: Space, trials: int | None) -> tuple[int | None, list[Problem]]:
    try:
        size = len(space.grid()) * options.seeds
    except ValueError as error:
        return None, about("sampler", f"--sampler grid: {error}")
    if trials is not None and trials > size:
        text = f"--trials {trials}: the grid has only {size} trials; give at most {size}, or leave out --trials"
        return trials, about("trials", text)
    return trials if trials is not None else size, []


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


def _points(
    options: SweepOptions, space: Space | None, trials: int | None, *, sampler: str
) -> tuple[list[Point], list[Problem]]:
    points: list[Point] = []
    problems: list[Problem] = []
    for text in options.enqueue:
        try:
            new_points = read_points(text)
            points += new_points
            for point in new_points:
                if space is not None:
                    params_of_point(space, point)
        except PointError as error:
            problems += about("enqueue", f"--enqueue {text}: {error}")
    if points and sampler == "grid":
        text = "--enqueue has no effect in a grid search, which visits every point; use another sampler"
        problems += about("enqueue", text)
    runs = len(points) * options.seeds
    if trials is not None and runs > trials > 0:
        counts = f"{counted(len(points), 'point')}, which need {counted(runs, 'run')} over all seeds"
        problems += about("enqueue", f"--enqueue has {counts}, but --trials is only {trials}")
    return points, problems
