"""The Optuna study of a sweep: which configuration next, and what became of it.

The study lives in ``optuna.log`` (Optuna's journal) and is asked and told directly, because Ray's own ``OptunaSearch``
tells Optuna wrong things: here a diverged or failed trial is FAIL, one stopped early is PRUNED, and only a finished
trial with finite objectives is COMPLETE. One Optuna trial is one trial of the sweep, and its number is the trial's id.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import cut_torn_line
from search_spaces.space import Space
from sweeper.trade_off import Objective
from trainables.run.reports import Status

if TYPE_CHECKING:
    import optuna

STUDY_NAME = "sweep"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A trial to run: its id, and the values the space gave it (``seed`` among them)."""

    trial_id: str
    config: dict[str, Any]


class SweepStudy:
    """Ask and tell, for ``trials`` trials in all, also over interruptions.

    With several seeds every configuration the sampler proposes is run once per seed, one Optuna trial each.
    """

    def __init__(
        self,
        out: Path,
        *,
        space: Space,
        objectives: Sequence[Objective],
        sampler: str,
        trials: int,
        seeds: Sequence[int],
        seed: int,
    ) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        logging.getLogger("optuna").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        log = out / "optuna.log"
        cut_torn_line(log)
        log.with_name(f"{log.name}.lock").unlink(missing_ok=True)  # a killed driver's: the caller holds the folder
        self._space = space
        self._objectives = tuple(objectives)
        self._trials = trials
        self._seeds = tuple(seeds)
        self._study = optuna.create_study(
            study_name=STUDY_NAME,
            storage=JournalStorage(JournalFileBackend(str(log))),
            directions=["maximize" if item.direction == "max" else "minimize" for item in objectives],
            load_if_exists=True,
        )
        if sampler == "grid":
            self._enqueue_grid()
        # After a resume the sampler must not draw its first proposals again.
        self._study.sampler = SAMPLERS[sampler](seed + self.asked, trials)
        self._again: deque[Proposal] = deque()

    @property
    def asked(self) -> int:
        """How many trials have been proposed so far, whatever became of them."""
        return len(self._asked_trials())

    def take_up(self, rows: Mapping[str, Mapping[str, object]]) -> list[Proposal]:
        """Bring the study in line with the rows of trials.csv, the truth after a crash.

        Trials that have a row but were never told are told now; trials without a row are proposed again, under their
        own ids and with their own values. Returns those.
        """
        import optuna

        for trial in self._asked_trials():
            trial_id = format_id(trial.number)
            if trial_id in rows:
                self.tell(trial_id, rows[trial_id])
            elif "config" in trial.user_attrs:
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
        self._enqueue_repetition()
        return self._record(self._study.ask())

    def tell(self, trial_id: str, row: Mapping[str, object], candidates: Sequence[Mapping[str, object]] = ()) -> None:
        """Report how a trial ended; telling one twice changes nothing.

        ``candidates`` are the rows of all its evaluated epochs, where each epoch is one.
        """
        from optuna.trial import TrialState

        values = [_number(row.get(item.column)) for item in self._objectives]
        if row.get("status") == Status.FINISHED and all(map(math.isfinite, values)):
            told: dict[str, Any] = {"values": values}
        else:
            told = {"state": TrialState.PRUNED if row.get("status") == Status.STOPPED else TrialState.FAIL}
        self._study.tell(int(trial_id), **told, skip_if_finished=True)

    def _record(self, trial: optuna.trial.Trial) -> Proposal:
        config = self._space.suggest(trial)
        config["seed"] = trial.user_attrs.get("seed", self._seeds[0])
        trial.set_user_attr("config", config)
        return Proposal(format_id(trial.number), config)

    def _enqueue_repetition(self) -> None:
        """With k seeds, trials come in groups of k: the sampler chooses the first, the others repeat its configuration.

        Which trial repeats what follows from the numbers alone, so a kill between two writes leaves nothing to mend.
        """
        trials = self._study.get_trials(deepcopy=False)
        repetition = self.asked % len(self._seeds)
        if repetition == 0 or len(trials) > self.asked:
            return
        leader = trials[self.asked - repetition].user_attrs["config"]
        self._study.enqueue_trial(self._space.params_of(leader), user_attrs={"seed": self._seeds[repetition]})

    def _enqueue_grid(self) -> None:
        points = [(point, seed) for point in self._space.grid() for seed in self._seeds]
        # Some may be there already: the enqueuing itself can have been interrupted.
        for point, seed in points[len(self._study.trials) :]:
            self._study.enqueue_trial(self._space.params_of(point), user_attrs={"seed": seed})

    def _asked_trials(self) -> list[optuna.trial.FrozenTrial]:
        from optuna.trial import TrialState

        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]


def _tpe(seed: int, trials: int) -> optuna.samplers.BaseSampler:
    import optuna

    startup = max(4, min(10, trials // 3))
    return optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=startup, seed=seed
    )


def _nsga2(seed: int, trials: int) -> optuna.samplers.BaseSampler:
    """Optuna's population of 50 would make a shorter sweep pure random search.

    Its uniform crossover over two or three parameters would mostly repeat the parents.
    """
    import optuna

    return optuna.samplers.NSGAIISampler(
        population_size=max(4, min(50, trials // 4)), crossover=optuna.samplers.nsgaii.SBXCrossover(), seed=seed
    )


def _random(seed: int, trials: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.RandomSampler(seed=seed)


SAMPLERS: Mapping[str, Callable[[int, int], optuna.samplers.BaseSampler]] = {
    "tpe": _tpe,
    "nsga2": _nsga2,
    "random": _random,
    "grid": _random,  # a grid is enqueued whole, so that no sampler is ever asked
}
"""What makes each sampler, by name, of a seed and the number of trials."""


def format_id(number: int) -> str:
    """A trial's id: its Optuna number with leading zeros, so that ids sort."""
    return f"{number:05d}"


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
