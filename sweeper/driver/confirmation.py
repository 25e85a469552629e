"""Run the confirm trials after the search, as planned by :mod:`sweeper.search.confirmation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.messages import counted
from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.tune_run import run_trials
from sweeper.execution.shutdown import is_interrupted
from sweeper.search.confirmation import AUTOMATIC_SHARE, FreshRun, missing_runs, wanted_runs
from sweeper.store.events import Phase
from sweeper.store.state import Stage

if TYPE_CHECKING:
    from analysis.frontier.confirmation import Confirmed


def has_fresh_runs(sweep: OpenSweep) -> bool:
    """Return whether a confirm trial remains to be run."""
    return bool(_unfinished(sweep) or _planned(sweep))


def confirm_answer(sweep: OpenSweep, capacity: int) -> None:
    """Train the configuration of the answer with fresh seeds and, if it does not hold, those of its runners-up.

    The search must be over. The plan depends only on the tables and the event log, so a resumed sweep continues it.
    """
    controller = sweep.controller
    while controller.failure is None and not is_interrupted():
        planned = [] if _unfinished(sweep) else _planned(sweep)
        controller.confirm(planned)
        if not controller.queued_confirmations:
            return
        _announce(sweep)
        run_trials(sweep, capacity)


def _unfinished(sweep: OpenSweep) -> bool:
    return any(trial.stage is not Stage.ENDED for trial in sweep.log.state.trials_of(Phase.CONFIRM))


def _planned(sweep: OpenSweep) -> list[FreshRun]:
    """Return the fresh runs to start next. After the time budget, fresh runs start only if they were requested."""
    if _is_automatic(sweep) and sweep.controller.limits.is_out_of_time:
        return []
    return missing_runs(_models(sweep), sweep.settings, sweep.log.state)


def left_out(sweep: OpenSweep) -> str:
    """Return a message on the fresh runs that did not start, with the reason; "" if all ran that were requested."""
    wanted = wanted_runs(_models(sweep), sweep.settings, sweep.log.state) if _is_automatic(sweep) else []
    if not wanted:
        return ""
    first, epochs = wanted[0], sum(run.epoch for run in wanted)
    reason = f"their {epochs:g} epochs exceed {AUTOMATIC_SHARE:.0%} of the epochs of the search"
    if sweep.controller.limits.is_out_of_time:
        reason = "the time budget is used up"
    runs = counted(len(wanted), "fresh run")
    return f"{runs} of trial {first.trial_id} up to epoch {first.epoch:g} did not start, because {reason}"


def _is_automatic(sweep: OpenSweep) -> bool:
    return sweep.settings.confirm is None


def _models(sweep: OpenSweep) -> list[Confirmed]:
    """Return the models to confirm, from the tables."""
    if not sweep.settings.fresh_seeds or not sweep.log.state.ended:
        return []
    from analysis.frontier.choice import models_to_confirm
    from analysis.tables.sources import read_source

    sweep.log.flush()
    source = read_source(sweep.out)
    return models_to_confirm(source.table, source.sweep, model=sweep.settings.confirmed_model)


def _announce(sweep: OpenSweep) -> None:
    """Print which configurations are trained again."""
    waiting = [trial for trial in sweep.log.state.trials_of(Phase.CONFIRM) if trial.stage is not Stage.ENDED]
    models = dict.fromkeys(f"trial {trial.confirms} up to epoch {trial.settings['stop_epoch']:g}" for trial in waiting)
    seeds = ", ".join(str(trial.settings["seed"]) for trial in waiting)
    runs = counted(len(waiting), "fresh run")
    sweep.display.activity = f"confirming {'; '.join(models)}"
    sweep.console.print(f"{runs} of the configuration of {'; '.join(models)} with seeds {seeds}", soft_wrap=True)
