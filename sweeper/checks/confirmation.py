"""Check and plan the fresh runs of a sweep's configurations, before any work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.frontier.choice import models_to_confirm
from analysis.frontier.confirmation import Confirmed
from analysis.tables.sources import read_source
from search_spaces.common.messages import some_of
from sweeper.checks.trial_time import estimate_pace
from sweeper.search.confirmation import FreshRun, epoch_allowance, missing_runs
from sweeper.settings.options import ConfirmOptions
from sweeper.settings.reading import Problem
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase
from sweeper.store.state import SweepState


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPlan:
    """The fresh runs that the command ``confirm`` starts first. The fields are the keys of ``--dry-run --json``.

    Attributes:
        trial_id, epoch: the model to confirm.
        seeds: the seeds of the runs, without the seeds of runs that have ended.
        epochs: the number of epochs that these runs train.
        max_epochs: the number of epochs if the runners-up must be trained, too.
        seconds: the sum of the estimated durations of these runs; None if unknown.
    """

    out: str
    trial_id: str
    epoch: float
    seeds: tuple[int, ...]
    epochs: float
    max_epochs: float
    seconds: float | None


def confirm_problems(options: ConfirmOptions, settings: SweepSettings, out: Path) -> Iterator[Problem]:
    """Yield the problems with confirming a model of the sweep in ``out``.

    Raises:
        AnalysisError, EventLogError: a file of the sweep cannot be read.
    """
    if options.epoch is not None and options.trial is None:
        yield Problem("--epoch is an epoch of a trial: give --trial ID, too", "epoch")
    state = read_state(out)
    if options.trial is not None:
        yield from _trial_problems(options.trial, options.epoch, state, out)
        return
    models = _models(settings, out)
    if not models:
        yield Problem(
            f"the sweep in {out} recommends no model, so there is no answer to confirm; give --trial ID --epoch N, or "
            "continue the sweep"
        )
    yield from (_origin_problem(model.trial_id, state) for model in models if not _has_config(model.trial_id, state))


def _trial_problems(trial_id: str, epoch: float | None, state: SweepState, out: Path) -> Iterator[Problem]:
    searched = [trial.id for trial in state.trials_of(Phase.SEARCH)]
    if trial_id not in searched:
        known = some_of(searched) if searched else "none"
        yield Problem(
            f"--trial {trial_id}: the sweep in {out} has no such trial of the search (it has {known})", "trial"
        )
        return
    if not _has_config(trial_id, state):
        yield _origin_problem(trial_id, state)
    rows = read_source(out).table.models.trials
    epochs = rows.loc[rows["trial_id"] == trial_id, "epoch"].astype(float).tolist()
    if not epochs:
        yield Problem(f"--trial {trial_id}: the trial has no evaluated epoch, so there is nothing to confirm", "trial")
    elif epoch is not None and epoch not in epochs:
        known = some_of([f"{value:g}" for value in epochs])
        yield Problem(f"--epoch {epoch:g}: trial {trial_id} has no such evaluated epoch (it has {known})", "epoch")


def _has_config(trial_id: str, state: SweepState) -> bool:
    trial = state.trials.get(trial_id)
    return trial is not None and "config" in trial.search.user_attrs


def _origin_problem(trial_id: str, state: SweepState) -> Problem:
    trial = state.trials.get(trial_id)
    origin = f" (its result was copied from {trial.reused_from})" if trial is not None and trial.reused_from else ""
    return Problem(
        f"trial {trial_id} cannot be trained again, because the event log does not contain its configuration{origin}"
    )


def confirm_plan(settings: SweepSettings, out: Path) -> ConfirmPlan:
    """Return the plan for the sweep in ``out``. The settings must have no problems (:func:`confirm_problems`)."""
    state = read_state(out)
    models = _models(settings, out)
    runs: Sequence[FreshRun] = missing_runs(models, settings, state)
    epochs = sum(run.epoch for run in runs)
    further = 0.0 if settings.confirmed_model else sum(model.epoch for model in models[1:])
    pace = estimate_pace(settings.base, [out], gpus=settings.gpus_per_trial)
    model = models[0]
    return ConfirmPlan(
        out=str(out),
        trial_id=runs[0].trial_id if runs else model.trial_id,
        epoch=runs[0].epoch if runs else model.epoch,
        seeds=tuple(run.seed for run in runs),
        epochs=epochs,
        max_epochs=min(epochs + further * len(settings.fresh_seeds), epoch_allowance(settings, state)),
        seconds=None if pace is None else sum(pace.trial_seconds(run.epoch) for run in runs),
    )


def _models(settings: SweepSettings, out: Path) -> list[Confirmed]:
    source = read_source(out)
    return models_to_confirm(source.table, source.sweep, model=settings.confirmed_model)
