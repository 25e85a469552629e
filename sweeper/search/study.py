"""The Optuna study of a sweep: propose the next configuration and record each trial's outcome.

The study uses Optuna's ask and tell directly because Ray's ``OptunaSearch`` reports wrong trial states. Here a diverged
or failed trial is FAIL, a stopped trial is PRUNED, and only a finished trial with finite objectives is COMPLETE. If
every epoch is a candidate, the values of a trial are the values at the epoch that adds most hypervolume to the Pareto
front (:class:`sweeper.search.archive.ParetoArchive`). Even in this case, a trial that a scheduler stopped is PRUNED,
because comparing its few epochs with complete trials would favour greedy configurations. TPE ranks PRUNED trials behind
all COMPLETE trials; the other samplers ignore PRUNED trials.

Each trial of the sweep is one Optuna trial. Trials of previous sweeps (priors) come first in the Optuna study, so the
id of a trial is its Optuna number minus the number of priors.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from search_spaces.points import params_of_point
from search_spaces.values import Value
from sweeper.search.archive import ParetoArchive, Row
from sweeper.search.samplers import SAMPLERS, Search
from sweeper.search.study_journal import open_journal
from sweeper.search.warm_start import Prior, format_warm_start, warm_start
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from trainables.modality import dataset_modality
from trainables.run.reports import Status
from trainables.target.target import Target

if TYPE_CHECKING:
    import optuna

logger = logging.getLogger(__name__)
STUDY_NAME = "sweep"
_POINT = "point"
"""The user attribute of a trial that stores a configuration outside the search space."""
_POINTS, _PRIOR = "points", "prior"
"""The study's attribute for the points to try first, and a trial's attribute for its origin in a previous sweep."""
_FIRST_GENERATION = {f"{name}:generation": 0 for name in ("NSGAIISampler", "NSGAIIISampler")}
"""The system attributes by which Optuna's genetic samplers recognise possible parents."""


class SweepStudy:
    """Proposes and records all trials of a search, across interruptions. ``archive`` has the results so far.

    Args:
        seeds: every configuration runs once for each seed, as a separate Optuna trial.
        extension: additional points of a grid, which may be outside the space.
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
        self._outcomes: dict[str, tuple[Row, Sequence[Row]]] = {}
        self._search = search
        self._seeds = tuple(seeds)
        self._study = optuna.create_study(
            study_name=STUDY_NAME,
            storage=storage,
            directions=["maximize" if item.direction == "max" else "minimize" for item in archive.objectives],
            load_if_exists=True,
        )
        self._grid: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
        if sampler == "grid":
            self._grid += [(self._search.space.params_of(point), {}) for point in self._search.space.grid()]
            self._grid += [({}, {_POINT: dict(point)}) for point in extension]
        self._study.sampler = SAMPLERS[sampler](replace(search, asked=self.asked))
        self._unfinished: deque[str] = deque()

    @property
    def has_begun(self) -> bool:
        """Whether :meth:`begin` has been called, or a trial has been proposed."""
        return _POINTS in self._study.user_attrs or self.asked > 0

    def begin(self, *, points: Sequence[Mapping[str, Value]] = (), priors: Sequence[Prior] = ()) -> None:
        """Before the first trial, add the trials of previous sweeps and the points to try first (as Optuna parameters).

        If the process is killed during the call, the call can be repeated with the same arguments.
        """
        from optuna.trial import create_trial

        distributions = self._search.space.distributions()
        for prior in priors[len(self._study.get_trials(deepcopy=False)) :]:
            params = self._search.space.params_of(prior.config)
            constraints = dict(zip(map(str, self.archive.constraints), prior.result.violations, strict=True))
            self._study.add_trial(
                create_trial(
                    params=params,
                    distributions={name: distributions[name] for name in params},
                    values=prior.result.values,
                    constraints=constraints or None,
                    user_attrs={_PRIOR: prior.origin},
                    system_attrs=dict(_FIRST_GENERATION),  # a copy, because Optuna changes it
                )
            )
        self._study.set_user_attr(_POINTS, [dict(point) for point in points])

    @property
    def asked(self) -> int:
        """The number of trials proposed so far, in any state."""
        return sum(self._is_asked(trial) for trial in self._own_trials())

    @property
    def unfinished(self) -> int:
        """The number of trials from before a resume that have not been proposed again yet."""
        return len(self._unfinished)

    def restore(self, rows: Mapping[str, Row], candidates: Mapping[str, Sequence[Row]] = MappingProxyType({})) -> None:
        """Update the study from the event log, because optuna.log may be incomplete after a crash.

        ``rows`` has the rows of the ended trials in the order in which they ended, and ``candidates`` the rows of their
        epochs. Ended trials that a lost or damaged optuna.log lacks are added, and all ended trials are told. All other
        trials are proposed again with their ids and configurations.
        """
        self._add_missing(rows)
        for trial_id, row in rows.items():
            self.tell(trial_id, row, candidates.get(trial_id, ()))
        asked = (format_id(index) for index, trial in enumerate(self._own_trials()) if self._is_asked(trial))
        self._unfinished.extend(trial_id for trial_id in asked if trial_id not in rows)

    def requeue(self, trial_id: str) -> None:
        """Return a proposed trial to the front of the queue."""
        self._unfinished.appendleft(trial_id)

    def ask(self) -> tuple[str, dict[str, Any]] | None:
        """Return the id and the configuration, including ``seed``, of the next trial; None after the last trial."""
        import optuna

        if self._unfinished:
            trial_id = self._unfinished.popleft()
            trial = self._own_trials()[int(trial_id)]
            if "config" in trial.user_attrs:
                return trial_id, dict(trial.user_attrs["config"])
            # The process was killed before the configuration was recorded, so the trial has not run.
            return self._propose(optuna.trial.Trial(self._study, trial._trial_id))
        if self.asked >= self._search.trials:
            return None
        self._enqueue_next()
        return self._propose(self._study.ask())

    def tell(self, trial_id: str, row: Row, candidates: Sequence[Row] = ()) -> None:
        """Record a trial's outcome. A repeated call has no effect. See :meth:`ParetoArchive.add` for the rows."""
        import optuna
        from optuna.trial import TrialState

        if trial_id in self._outcomes:
            return
        self._outcomes[trial_id] = row, candidates
        result = self.archive.add(row, candidates)
        trials = self._own_trials()
        if int(trial_id) >= len(trials) or (trial := trials[int(trial_id)]).state.is_finished():
            return  # optuna.log has lost the trial, which runs again before it is reported
        if row.get("status") == Status.FINISHED and result is not None:
            for constraint, violation in zip(self.archive.constraints, result.violations, strict=True):
                optuna.trial.Trial(self._study, trial._trial_id).set_constraint(str(constraint), violation)
            self._study.tell(trial.number, values=result.values)
        else:
            state = TrialState.PRUNED if row.get("status") == Status.STOPPED else TrialState.FAIL
            self._study.tell(trial.number, state=state)

    def forget(self, trial_id: str) -> None:
        """Remove a trial's outcome, because the trial runs again."""
        if self._outcomes.pop(trial_id, None) is not None:
            self.archive.clear()
            for row, candidates in self._outcomes.values():
                self.archive.add(row, candidates)

    def _add_missing(self, rows: Mapping[str, Row]) -> None:
        """Add the ended trials that the study lacks, with their numbers. Enqueue a trial for each other missing number.

        A row contains the configuration of the trial, but not the attributes that a sampler stores.
        """
        from optuna.trial import TrialState, create_trial

        distributions, added = self._search.space.distributions(), 0
        known = self._own_trials()
        for index in range(1 + max(map(int, rows), default=-1)):
            has_row, seed = format_id(index) in rows, self._seeds[index % len(self._seeds)]
            trial = known[index] if index < len(known) else None
            if trial is not None and (not has_row or "config" in trial.user_attrs):
                continue
            config = self._config_in(rows, index)
            if not has_row:
                params, attributes = self._plan(index, config) or ({}, {"seed": seed})
                self._study.enqueue_trial(params, user_attrs=attributes)
                continue
            params = {} if config is None else self._search.space.params_of(config)
            added += 1
            attributes = {"config": {**(config or {}), "seed": seed}, "seed": seed}
            if trial is None:
                self._study.add_trial(
                    create_trial(
                        state=TrialState.RUNNING,
                        params=params,
                        distributions={name: distributions[name] for name in params},
                        user_attrs=attributes,
                        system_attrs=dict(_FIRST_GENERATION),
                    )
                )
                continue
            storage, storage_id = self._study._storage, trial._trial_id
            if not self._is_asked(trial):
                storage.set_trial_state_values(storage_id, TrialState.RUNNING)
            for name in params.keys() - trial.params.keys():
                distribution = distributions[name]
                storage.set_trial_param(storage_id, name, distribution.to_internal_repr(params[name]), distribution)
            for name, value in attributes.items():
                storage.set_trial_user_attr(storage_id, name, value)
        if added:
            logger.warning("%d trials in the event log were missing in optuna.log and have been added", added)

    def _config_in(self, rows: Mapping[str, Row], index: int) -> dict[str, Value] | None:
        """Return the configuration from the trial's row or, without a row, from its repetition with another seed."""
        first = index - index % len(self._seeds)
        for other in (index, *range(first, first + len(self._seeds))):
            if (row := rows.get(format_id(other))) is not None:
                with suppress(ValueError):
                    return self._search.space.configuration(cast(Mapping[str, Value], row))
                return None
        return None

    def _propose(self, trial: optuna.trial.Trial) -> tuple[str, dict[str, Any]]:
        point = trial.user_attrs.get(_POINT)
        config = dict(point) if point is not None else self._search.space.suggest(trial)
        config["seed"] = trial.user_attrs.get("seed", self._seeds[0])
        trial.set_user_attr("config", config)
        priors = sum(_PRIOR in other.user_attrs for other in self._study.get_trials(deepcopy=False))
        return format_id(trial.number - priors), config

    def _enqueue_next(self) -> None:
        """Enqueue the next trial, unless a trial is enqueued already or the sampler proposes the next trial.

        The next trial depends only on the numbers of the stored trials. So nothing must be repaired if the process is
        killed between two writes.
        """
        trials, index = self._own_trials(), self.asked
        if len(trials) > index:
            return
        repetition = index % len(self._seeds)
        config = trials[index - repetition].user_attrs["config"] if repetition else None
        if (planned := self._plan(index, config)) is not None:
            params, attributes = planned
            self._study.enqueue_trial(params, user_attrs=attributes)

    def _plan(self, index: int, config: Mapping[str, Value] | None) -> tuple[Mapping[str, Any], dict[str, Any]] | None:
        """Return the parameters and user attributes of a trial, or None if the sampler proposes the trial.

        With k seeds, trials form groups of k. A group gets the next point of the grid. Without a grid, the first trial
        of a group gets the next enqueued point, or the sampler's proposal if no enqueued point is left. The other
        trials of the group repeat its ``config``. A point outside the space is stored in a user attribute.
        """
        group, repetition = divmod(index, len(self._seeds))
        points = self._study.user_attrs.get(_POINTS, ())
        attributes: dict[str, Any] = {"seed": self._seeds[repetition]}
        if group < len(self._grid):
            params, point = self._grid[group]
            return params, attributes | point
        if config is not None:
            return self._search.space.params_of(config), attributes
        return (points[group], attributes) if group < len(points) else None

    def _own_trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials of the sweep, without the trials of previous sweeps. The index of a trial is its id."""
        return [trial for trial in self._study.get_trials(deepcopy=False) if _PRIOR not in trial.user_attrs]

    @staticmethod
    def _is_asked(trial: optuna.trial.FrozenTrial) -> bool:
        return bool(trial.state.name != "WAITING")


def format_id(index: int) -> str:
    """Return a trial's id, with leading zeros so that ids sort in numerical order."""
    return f"{index:05d}"


def open_study(out: Path, settings: SweepSettings, target: Target, *, console: Console) -> SweepStudy:
    """Open the study of the sweep in ``out``. A new study starts with the enqueued points and the previous sweeps."""
    unit = dataset_modality(settings.base.dataset).unit
    objectives = axes(settings.parsed_objectives, math.log(target.vocabulary_size), unit=unit)
    archive = ParetoArchive(
        objectives,
        constraints=settings.parsed_constraints,
        baseline=target.baseline,
        every_epoch=bool(settings.goals),
    )
    study = SweepStudy(
        open_journal(out),
        archive,
        Search(space=settings.space, trials=settings.trials, seed=settings.seed),
        sampler=settings.sampler,
        seeds=settings.all_seeds,
        extension=settings.extension,
    )
    if study.has_begun or not (settings.enqueue or settings.warm_start):
        return study
    points: list[Mapping[str, Value]] = [params_of_point(settings.space, point) for point in settings.enqueue]
    priors: list[Prior] = []
    most = max(1, (settings.trials // settings.seeds - len(points)) // 2)  # the sampler proposes the other half
    for folder in map(Path, settings.warm_start):
        found = warm_start(folder, settings, objectives, target_key=target.key, baseline=target.baseline, most=most)
        console.print(format_warm_start(found, folder), highlight=False, markup=False, soft_wrap=True)
        points += found.points
        priors += found.priors
        most -= len(found.points)
    study.begin(points=points, priors=priors)
    return study
