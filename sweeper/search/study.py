"""The Optuna study of a sweep: which configuration next, and what became of it.

The study calls Optuna's ask and tell directly because Ray's ``OptunaSearch`` reports wrong trial states. Here a
diverged or failed trial is FAIL, a trial stopped early is PRUNED, and only a finished trial with finite objectives is
COMPLETE. If every epoch is a candidate, the trial is reported with the epoch that adds most hypervolume to the front
(:class:`sweeper.search.archive.ParetoArchive`). A trial stopped by a scheduler stays PRUNED in that case, too: its
epochs are candidates, but comparing its few epochs with whole trials would favour greedy configurations. TPE ranks
PRUNED trials behind all finished ones; the other samplers ignore them.

One Optuna trial is one trial of the sweep, and its number is the trial's id; trials of earlier sweeps, which come first
and are none of this sweep's, are not counted in.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from search_spaces.constraint import Constraint
from search_spaces.points import params_of_point
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.search.archive import ParetoArchive, Row, number
from sweeper.search.row_space import config_of
from sweeper.search.samplers import SAMPLERS, Search
from sweeper.search.warm_start import PreviousSweep, Prior, warm_start
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.study_journal import open_journal
from trainables.modality import dataset_modality
from trainables.run.reports import Status
from trainables.target.target import Target

if TYPE_CHECKING:
    import optuna

    from analysis.tables.trade_off import Objective


logger = logging.getLogger(__name__)
STUDY_NAME = "sweep"
_POINT = "point"
"""The user attribute of a trial that is no point of the space."""


_POINTS, _PRIOR = "points", "prior"
"""User attributes: of a study that has begun, what is tried first; of a trial of another sweep, where it is from."""


_FIRST_GENERATION = {f"{name}:generation": 0 for name in ("NSGAIISampler", "NSGAIIISampler")}
"""How Optuna's genetic samplers know a trial as a possible parent."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A trial to run: its id, and the values the space gave it (``seed`` among them)."""

    trial_id: str
    config: dict[str, Any]


class SweepStudy:
    """Ask and tell, for ``trials`` trials in all, also over interruptions.

    With several seeds every configuration the sampler proposes is run once per seed, one Optuna trial each. A grid may
    have an ``extension``: further points, which need not be of the space. ``baseline`` has the values of the No-unlearn
    model, which relative ``constraints`` need.
    """

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        *,
        space: Space,
        objectives: Sequence[Objective],
        sampler: str,
        trials: int,
        seeds: Sequence[int],
        seed: int,
        extension: Sequence[Mapping[str, Any]] = (),
        constraints: Sequence[Constraint] = (),
        baseline: Mapping[str, float] | None = None,
    ) -> None:
        import optuna

        logging.getLogger("optuna").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self._space = space
        self._constraints = tuple(constraints)
        self.archive = ParetoArchive(objectives, constraints=constraints, baseline=baseline)
        self._told: set[str] = set()
        self._trials = trials
        self._seeds = tuple(seeds)
        self._study = optuna.create_study(
            study_name=STUDY_NAME,
            storage=storage,
            directions=["maximize" if item.direction == "max" else "minimize" for item in objectives],
            load_if_exists=True,
        )
        if sampler == "grid":
            self._enqueue_grid(extension)
        self._study.sampler = SAMPLERS[sampler](Search(space=space, trials=trials, seed=seed, asked=self.asked))
        self._again: deque[Proposal] = deque()

    @property
    def has_begun(self) -> bool:
        """Whether what :meth:`begin` brings in is there, or would come too late."""
        return _POINTS in self._study.user_attrs or self.asked > 0

    def begin(self, *, points: Sequence[Mapping[str, Value]] = (), priors: Sequence[Prior] = ()) -> None:
        """Before the first trial: what is known from earlier sweeps, and Optuna parameters that are tried first.

        May be called again after a kill, with the same.
        """
        from optuna.trial import create_trial

        distributions = self._space.distributions()
        for prior in priors[len(self._study.get_trials(deepcopy=False)) :]:
            params = self._space.params_of(prior.config)
            constraints = dict(zip(map(str, self._constraints), prior.result.violations, strict=True))
            self._study.add_trial(
                create_trial(
                    params=params,
                    distributions={name: distributions[name] for name in params},
                    values=prior.result.values,
                    constraints=constraints or None,
                    user_attrs={_PRIOR: prior.origin},
                    system_attrs=dict(_FIRST_GENERATION),  # Optuna writes into it
                )
            )
        self._study.set_user_attr(_POINTS, [dict(point) for point in points])

    @property
    def asked(self) -> int:
        """How many trials have been proposed so far, whatever became of them."""
        return len(self._asked_trials())

    @property
    def unfinished(self) -> int:
        """How many trials that had begun before are still to be proposed again."""
        return len(self._again)

    def restore(self, rows: Mapping[str, Row], candidates: Mapping[str, Sequence[Row]] | None = None) -> list[Proposal]:
        """Bring the study in line with the rows of trials.csv, the truth after a crash, in the order they ended.

        ``candidates`` has the rows of candidates.csv by trial. Trials that have a row but were never told are told
        now, those of which a lost or damaged optuna.log knows nothing are brought in; trials without a row are proposed
        again, under their own ids and with their own values. Returns those.
        """
        import optuna

        self._bring_in(rows)
        asked = self._asked_trials()
        own = {self._id(trial.number) for trial in asked} & rows.keys()
        for trial_id in sorted(own, key=lambda name: (number(rows[name].get("ended_at") or 0.0), name)):
            self.tell(trial_id, rows[trial_id], (candidates or {}).get(trial_id, ()))
        for trial in asked:
            trial_id = self._id(trial.number)
            if trial_id in own:
                continue
            if "config" in trial.user_attrs:
                self._again.append(Proposal(trial_id, dict(trial.user_attrs["config"])))
            else:
                # Killed between Optuna's ask and our record of its values: nothing ran, the number takes a new config.
                self._again.append(self._record(optuna.trial.Trial(self._study, trial._trial_id)))
        return list(self._again)

    def ask(self) -> Proposal | None:
        """The next trial to run, or None when all have been proposed."""
        if self._again:
            return self._again.popleft()
        if self.asked >= self._trials:
            return None
        self._enqueue_next()
        return self._record(self._study.ask())

    def tell(self, trial_id: str, row: Row, candidates: Sequence[Row] = ()) -> None:
        """Report how a trial ended; telling one twice changes nothing.

        ``candidates`` are the rows of its epochs where each may be on the front; without any the last epoch, the row
        of trials.csv, is all there is.
        """
        import optuna
        from optuna.trial import TrialState

        if trial_id in self._told:
            return
        self._told.add(trial_id)
        result = self.archive.add(row, candidates)
        trial = self._own_trials()[int(trial_id)]
        if trial.state.is_finished():
            return
        if row.get("status") == Status.FINISHED and result is not None:
            told: dict[str, Any] = {"values": result.values}
            for constraint, missed in zip(self._constraints, result.violations, strict=True):
                optuna.trial.Trial(self._study, trial._trial_id).set_constraint(str(constraint), missed)
        else:
            told = {"state": TrialState.PRUNED if row.get("status") == Status.STOPPED else TrialState.FAIL}
        self._study.tell(trial.number, **told)

    def _bring_in(self, rows: Mapping[str, Row]) -> None:
        """The trials with a row of which the study knows nothing, under their numbers; gaps between them are waiting.

        A row tells its trial's configuration, but neither what a sampler noted down nor what ran without a row.
        """
        from optuna.trial import TrialState, create_trial

        distributions, lost = self._space.distributions(), 0
        known = self._own_trials()
        for index in range(1 + max(map(int, rows), default=-1)):
            own, seed = format_id(index) in rows, self._seeds[index % len(self._seeds)]
            trial = known[index] if index < len(known) else None
            if trial is not None and (not own or "config" in trial.user_attrs):
                continue
            config = self._config_told(index, rows)
            params = {} if config is None else self._space.params_of(config)
            if not own:
                self._study.enqueue_trial(params, user_attrs={"seed": seed})
                continue
            lost += 1
            told = {"config": {**(config or {}), "seed": seed}, "seed": seed}
            if trial is None:
                used = {name: distributions[name] for name in params}
                state, attrs = TrialState.RUNNING, dict(_FIRST_GENERATION)
                self._study.add_trial(
                    create_trial(state=state, params=params, distributions=used, user_attrs=told, system_attrs=attrs)
                )
                continue
            storage, number = self._study._storage, trial._trial_id
            if trial.state == TrialState.WAITING:  # of a grid, which is enqueued whole
                storage.set_trial_state_values(number, TrialState.RUNNING)
            for name in params.keys() - trial.params.keys():
                kind = distributions[name]
                storage.set_trial_param(number, name, kind.to_internal_repr(params[name]), kind)
            for name, value in told.items():
                storage.set_trial_user_attr(number, name, value)
        if lost:
            logger.warning("optuna.log did not know %d trials of trials.csv; they are brought in from there", lost)

    def _config_told(self, index: int, rows: Mapping[str, Row]) -> dict[str, Value] | None:
        """What the row of a trial tells of its configuration, or the row of one that repeats it with another seed."""
        first = index - index % len(self._seeds)
        for other in (index, *range(first, first + len(self._seeds))):
            if (row := rows.get(format_id(other))) is not None:
                return config_of(self._space, {name: str(value) for name, value in row.items() if value is not None})
        return None

    def _record(self, trial: optuna.trial.Trial) -> Proposal:
        point = trial.user_attrs.get(_POINT)
        config = dict(point) if point is not None else self._space.suggest(trial)
        config["seed"] = trial.user_attrs.get("seed", self._seeds[0])
        trial.set_user_attr("config", config)
        return Proposal(self._id(trial.number), config)

    def _enqueue_next(self) -> None:
        """With k seeds, trials come in groups of k: the points to try first, then the sampler, choose the first of a
        group, the others repeat its configuration.

        Which trial is which follows from the numbers alone, so a kill between two writes leaves nothing to mend.
        """
        trials = self._own_trials()
        group, repetition = divmod(self.asked, len(self._seeds))
        if len(trials) > self.asked:
            return
        if repetition:
            leader = trials[self.asked - repetition].user_attrs["config"]
            self._study.enqueue_trial(self._space.params_of(leader), user_attrs={"seed": self._seeds[repetition]})
        elif group < len(points := self._study.user_attrs.get(_POINTS, ())):
            self._study.enqueue_trial(points[group])

    def _enqueue_grid(self, extension: Sequence[Mapping[str, Any]]) -> None:
        """Optuna cannot be asked for a point that the space has not: such a one travels beside the parameters."""
        own: list[tuple[dict[str, Any], dict[str, Any]]]
        own = [(dict(self._space.params_of(point)), {}) for point in self._space.grid()]
        points = [*own, *(({}, {_POINT: dict(point)}) for point in extension)]
        each = [(params, attrs | {"seed": seed}) for params, attrs in points for seed in self._seeds]
        # Some may be there already: the enqueuing itself can have been interrupted.
        for params, attrs in each[len(self._own_trials()) :]:
            self._study.enqueue_trial(params, user_attrs=attrs)

    def _own_trials(self) -> list[optuna.trial.FrozenTrial]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if _PRIOR not in trial.user_attrs]

    def _asked_trials(self) -> list[optuna.trial.FrozenTrial]:
        from optuna.trial import TrialState

        return [trial for trial in self._own_trials() if trial.state != TrialState.WAITING]

    def _id(self, number: int) -> str:
        return format_id(number - self._earlier())

    def _earlier(self) -> int:
        """How many trials of earlier sweeps are in the study; they come first."""
        trials = self._study.get_trials(deepcopy=False)
        return next((index for index, trial in enumerate(trials) if _PRIOR not in trial.user_attrs), len(trials))


def format_id(number: int) -> str:
    """A trial's id: its Optuna number with leading zeros, so that ids sort."""
    return f"{number:05d}"


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
        found = warm_start(
            PreviousSweep.read(folder), settings, objectives, target_key=target.key, baseline=target.baseline, most=most
        )
        console.print(found.words, highlight=False, markup=False, soft_wrap=True)
        points += found.points
        priors += found.priors
        most -= len(found.points)
    study.begin(points=points, priors=priors)
    return study
