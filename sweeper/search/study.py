"""The Optuna study of a sweep: propose configurations, and record results.

The study uses Optuna's ask-and-tell interface, because Ray's ``OptunaSearch`` reports wrong trial states. An ended
trial gets one of these states:

- COMPLETE: the trial finished with finite objectives.
- PRUNED: the trial was stopped early. It has no values, because comparing its few epochs with complete trials would
  favour configurations that are good only at first.
- FAIL: the trial diverged or failed.

The values of a COMPLETE trial are those of one of its epochs (:class:`sweeper.search.archive.ParetoArchive`). TPE ranks
PRUNED trials behind all COMPLETE trials. The other samplers ignore PRUNED trials.

A sampler may propose a configuration that the sweep has already tried. Such a proposal does not become a trial of the
sweep. Its Optuna trial gets the state FAIL, because the sampler knows the result from the first trial with this
configuration. After a few such proposals in a row, an untried configuration is drawn at random.

The Optuna study begins with the trials taken from previous sweeps (priors).

The event log contains everything that Optuna stores. When a sweep starts or is resumed, its study is rebuilt from the
event log in a new file OUT/optuna.log. optuna-dashboard can read this file.
"""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from search_spaces.common.front import Criteria, Point
from search_spaces.common.values import Value
from search_spaces.points import params_of_point
from sweeper.search.archive import ParetoArchive, Row
from sweeper.search.samplers import SAMPLERS, Search
from sweeper.search.tried import TriedConfigurations
from sweeper.search.warm_start import format_warm_start, warm_start
from sweeper.settings.objectives import with_bounds
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import EventLog
from sweeper.store.events import OptunaTrial, Phase, Prior, SearchStarted
from sweeper.store.state import SweepState, Trial
from trainables.modality import dataset_modality
from trainables.run.reports import Status
from trainables.target.target import Target

if TYPE_CHECKING:
    import optuna

logger = logging.getLogger(__name__)
STUDY_NAME = "sweep"
_POINT, _PRIOR = "point", "prior"
"""Names of user attributes: a configuration outside the search space, and the origin of a prior."""
_TRIED_IN_A_ROW = 10
"""The number of tried configurations that a sampler may propose in a row. Then an untried one is drawn at random."""
_FIRST_GENERATION = {f"{name}:generation": 0 for name in ("NSGAIISampler", "NSGAIIISampler")}
"""System attributes that NSGA-II and NSGA-III require of a parent."""


class SweepStudy:
    """Proposes the trials of a sweep, and records their results.

    Call :meth:`restore` before the first :meth:`ask`. If there are priors or points to try first, call :meth:`begin`
    before :meth:`restore`. The fields ``_planned`` and ``_unfinished`` are queues: the points to try first, and the
    trials to run again. ``_numbers`` maps the id of a trial to the number of its Optuna trial.

    Attributes:
        tried: the configurations of all trials.
        is_exhausted: whether :meth:`ask` found no untried configuration.

    Args:
        storage: an Optuna storage without studies.
        search: the inputs of the sampler. ``search.proposed_trials`` is the number of trials that :meth:`restore` adds.
        seeds: the random seeds. Each configuration is trained once with each seed.
        extension: points to run after the grid of the search space. They may be outside the search space.
    """

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        archive: ParetoArchive,
        search: Search,
        *,
        sampler: str,
        seeds: Sequence[int],
        extension: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        import optuna

        logging.getLogger("optuna").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self.archive = archive
        self._recorded: set[str] = set()
        self._space = search.space
        self._trials = search.trials
        self._seeds = tuple(seeds)
        self._study = optuna.create_study(
            study_name=STUDY_NAME,
            storage=storage,
            sampler=SAMPLERS[sampler](search),
            directions=["maximize" if item.direction == "max" else "minimize" for item in archive.criteria.objectives],
        )
        self._priors = 0
        self.tried = TriedConfigurations(
            search.space, identify=search.identify, first_seed=self._seeds[0], random_seed=search.seed
        )
        self.is_exhausted = False
        self._numbers: dict[str, int] = {}
        self._known_attrs: set[str] = set()
        # The Optuna parameters and user attributes of the points to try first.
        self._planned: deque[tuple[Mapping[str, Any], dict[str, Any]]] = deque()
        self._is_grid = sampler == "grid"
        if self._is_grid:
            self._planned += [(self._space.params_of(point), {}) for point in self._space.grid()]
            self._planned += [({}, {_POINT: dict(point)}) for point in extension]
        self._unfinished: deque[str] = deque()

    def begin(self, *, points: Sequence[Mapping[str, Value]] = (), priors: Sequence[Prior] = ()) -> None:
        """Add ``priors`` (trials of previous sweeps), and plan ``points`` (Optuna parameters to try first)."""
        for prior in priors:
            result = Point(prior.values, prior.violations)
            data = OptunaTrial(self._space.params_of(prior.config), {_PRIOR: prior.origin}, _FIRST_GENERATION)
            self._add_trial(data, self._final_state({"status": Status.FINISHED}, result))
        self._priors = len(priors)
        self._planned += [(point, {}) for point in points]

    @property
    def proposed_trials(self) -> int:
        """The number of trials proposed so far, in any state."""
        return len(self._numbers)

    @property
    def unfinished(self) -> int:
        """The number of trials that :meth:`ask` will return again, because they have no result."""
        return len(self._unfinished)

    def restore(self, state: SweepState) -> None:
        """Add the trials of the event log to the Optuna study. :meth:`ask` returns trials without a result again."""
        from optuna.trial import TrialState

        final_states: dict[str, dict[str, Any]] = {}
        for trial in state.ended_of(Phase.SEARCH):
            if trial.has_result:
                row = trial.row()
                result = self._add_outcome(trial.id, row, [report.values for report in trial.candidates()])
                final_states[trial.id] = self._final_state(row, result)
        numbers = itertools.count(self._priors)
        for trial in state.trials_of(Phase.SEARCH):
            for proposal in trial.search.tried_before:
                self._add_trial(proposal, {"state": TrialState.FAIL})
                next(numbers)
            self._add_trial(trial.search, final_states.get(trial.id, {}), trial)
            self._accept(trial.id, next(numbers), trial.search.user_attrs["config"])
            if trial.id not in final_states:
                self._unfinished.append(trial.id)
        planned = sum(map(self._is_planned, self._optuna_trials()))
        self._planned = deque(itertools.islice(self._planned, planned, None))

    def requeue(self, trial_id: str) -> None:
        """Put a proposed trial back at the front of the queue."""
        self._unfinished.appendleft(trial_id)

    def ask(self) -> tuple[str, dict[str, Any]] | None:
        """Return the id and the configuration of the next trial, or None if no trial is left.

        A new trial never has the configuration of an earlier trial.
        """
        if self.proposed_trials - len(self._unfinished) >= self._trials:  # the trials that have ended or are running
            return None
        if self._unfinished:
            trial_id = self._unfinished.popleft()
            return trial_id, dict(self._optuna_trial(trial_id).user_attrs["config"])
        if self.is_exhausted:
            return None
        return self._propose()

    def _propose(self) -> tuple[str, dict[str, Any]] | None:
        from optuna.trial import TrialState

        is_repetition = self.proposed_trials % len(self._seeds) > 0
        for tried_in_a_row in itertools.count():
            if not self._enqueue_next(tried_in_a_row):
                self.is_exhausted = True
                return None
            trial = self._study.ask()
            point = trial.user_attrs.get(_POINT)
            config = dict(point) if point is not None else self._space.suggest(trial)
            config["seed"] = trial.user_attrs.get("seed", self._seeds[0])
            trial.set_user_attr("config", config)
            if is_repetition or config not in self.tried:
                break
            self._study.tell(trial.number, state=TrialState.FAIL)
        trial_id = format_id(self.proposed_trials)
        self._accept(trial_id, trial.number, config)
        return trial_id, config

    def _accept(self, trial_id: str, number: int, config: Mapping[str, Any]) -> None:
        self._numbers[trial_id] = number
        self.tried.add(config)

    def optuna_data(self, trial_id: str) -> OptunaTrial:
        """Return what Optuna stores about a newly proposed trial, for the event log.

        The result includes the proposals between the previous trial and this trial, whose configurations had been
        tried. It also includes the study's attributes that were added since the previous call, because NSGA-II and
        NSGA-III store the parents of trials in these attributes.
        """
        number = self._numbers[trial_id]
        previous = max((other for other in self._numbers.values() if other < number), default=self._priors - 1)
        *tried, trial = self._optuna_trials()[previous + 1 : number + 1]
        attrs = self._study._storage.get_study_system_attrs(self._study._study_id)
        new_attrs = {name: value for name, value in attrs.items() if name not in self._known_attrs}
        self._known_attrs.update(new_attrs)
        tried_before = tuple(OptunaTrial(item.params, item.user_attrs, item.system_attrs) for item in tried)
        return OptunaTrial(trial.params, trial.user_attrs, trial.system_attrs, new_attrs, tried_before)

    def tell(self, trial_id: str, row: Row, candidates: Sequence[Row] = ()) -> None:
        """Record the result of a trial.

        The call has no effect if the result is already recorded, or if the trial waits to run again.
        """
        import optuna

        if trial_id in self._recorded or trial_id in self._unfinished:
            return
        result = self._add_outcome(trial_id, row, candidates)
        final = self._final_state(row, result)
        trial = self._optuna_trial(trial_id)
        constraints = final.pop("constraints", None) or {}
        for name, violation in constraints.items():
            optuna.trial.Trial(self._study, trial._trial_id).set_constraint(name, violation)
        self._study.tell(trial.number, **final)

    def _add_outcome(self, trial_id: str, row: Row, candidates: Sequence[Row]) -> Point | None:
        self._recorded.add(trial_id)
        return self.archive.add(row, candidates)

    def _final_state(self, row: Row, result: Point | None) -> dict[str, Any]:
        """Return the Optuna state, values and constraints of an ended trial."""
        from optuna.trial import TrialState

        status = row.get("status")
        if status == Status.FINISHED and result is not None:
            names = [str(constraint) for constraint in self.archive.criteria.constraints]
            constraints = dict(zip(names, result.violations, strict=True))
            return {"state": TrialState.COMPLETE, "values": result.values, "constraints": constraints or None}
        return {"state": TrialState.PRUNED if status == Status.STOPPED else TrialState.FAIL}

    def _add_trial(self, data: OptunaTrial, final: Mapping[str, Any], trial: Trial | None = None) -> None:
        """Add a trial to the Optuna study. If ``final`` is empty, the trial's state is RUNNING."""
        from optuna.trial import TrialState, create_trial

        distributions, params = self._space.distributions(), data.params
        frozen = create_trial(
            params=params,
            distributions={name: distributions[name] for name in params},
            user_attrs=dict(data.user_attrs),
            system_attrs=dict(data.system_attrs),  # a copy, because Optuna changes it
            **(final or {"state": TrialState.RUNNING}),
        )
        if trial is not None and trial.outcome is not None and final:
            ended_at = trial.outcome.ended_at
            frozen.datetime_start = datetime.fromtimestamp(trial.started_at or ended_at)
            frozen.datetime_complete = datetime.fromtimestamp(ended_at)
        self._study.add_trial(frozen)
        for name, value in data.study_attrs.items():
            self._known_attrs.add(name)
            self._study._storage.set_study_system_attr(self._study._study_id, name, value)

    def _enqueue_next(self, tried_in_a_row: int) -> bool:
        """Put the next trial into Optuna's queue, unless the sampler proposes it. Return False if no trial is left.

        With k seeds, k consecutive trials form a group with equal configurations. The first groups get the planned
        points. In every group after these, the sampler proposes the first trial, and the other trials repeat its
        configuration. If the sampler has proposed too many tried configurations in a row, an untried one is drawn.
        """
        from optuna.trial import TrialState

        if any(trial.state is TrialState.WAITING for trial in self._optuna_trials()):
            return True
        repetition = self.proposed_trials % len(self._seeds)
        params: Mapping[str, Any] = {}
        point: Mapping[str, Any] = {}
        if repetition:
            first = self._optuna_trial(format_id(self.proposed_trials - repetition)).user_attrs
            point = {name: value for name, value in first.items() if name == _POINT}
            if not point:
                params = self._space.params_of(first["config"])
        elif self._planned:
            params, point = self._planned.popleft()
        elif self._is_grid or (tried_in_a_row and self.tried.has_all):
            return False
        elif tried_in_a_row < _TRIED_IN_A_ROW:
            return True
        elif (config := self.tried.draw()) is not None:
            params = self._space.params_of(config)
        else:
            return False
        self._study.enqueue_trial(params, user_attrs={"seed": self._seeds[repetition], **point})
        return True

    def _is_planned(self, trial: optuna.trial.FrozenTrial) -> bool:
        """Return whether a trial was the first with a planned point. Randomly drawn trials count, too."""
        return "fixed_params" in trial.system_attrs and trial.user_attrs.get("seed") == self._seeds[0]

    def _optuna_trial(self, trial_id: str) -> optuna.trial.FrozenTrial:
        return self._optuna_trials()[self._numbers[trial_id]]

    def _optuna_trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return all trials in the Optuna study: the priors, the sweep's trials and the proposals that were tried."""
        return list(self._study.get_trials(deepcopy=False))


def format_id(index: int) -> str:
    """Return a trial id with leading zeros, so that ids sort in numerical order."""
    return f"{index:05d}"


def open_study(
    log: EventLog,
    settings: SweepSettings,
    target: Target,
    *,
    identify: Callable[[Mapping[str, Any]], Hashable],
    console: Console,
) -> SweepStudy:
    """Build the study of a sweep from its event log. For a new sweep, first log the priors and the planned points."""
    unit = dataset_modality(settings.base.dataset).unit
    objectives = with_bounds(settings.parsed_objectives, math.log(target.vocabulary_size), unit=unit)
    criteria = Criteria(objectives, settings.searched_constraints, target.baseline)
    archive = ParetoArchive(criteria, every_epoch=settings.every_epoch)
    study = SweepStudy(
        new_journal(log.path.parent),
        archive,
        Search(
            space=settings.space,
            trials=settings.trials,
            seed=settings.seed,
            proposed_trials=len(log.state.trials_of(Phase.SEARCH)),
            identify=identify,
        ),
        sampler=settings.sampler,
        seeds=settings.all_seeds,
        extension=settings.extension,
    )
    if log.state.search is None and (settings.enqueue or settings.warm_start):
        points: list[Mapping[str, Value]] = [params_of_point(settings.space, point) for point in settings.enqueue]
        priors: list[Prior] = []
        limit = max(1, (settings.trials // settings.seeds - len(points)) // 2)  # the sampler proposes the other half
        for folder in map(Path, settings.warm_start):
            result = warm_start(folder, settings, criteria, target_key=target.key, max_points=limit)
            console.print(format_warm_start(result, folder), soft_wrap=True)
            points += result.points
            priors += result.priors
            limit -= len(result.points)
        log.record(SearchStarted(tuple(points), tuple(priors)))
    if (search := log.state.search) is not None:
        study.begin(points=search.points, priors=search.priors)
    study.restore(log.state)
    return study


def new_journal(out: Path) -> optuna.storages.BaseStorage:
    """Return an Optuna storage in a new file ``OUT/optuna.log``. An existing file is deleted."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    for name in ("optuna.log", "optuna.log.lock"):
        (out / name).unlink(missing_ok=True)
    return JournalStorage(JournalFileBackend(str(out / "optuna.log")))
