"""Merge stored models of a sweep into new candidates, after the search. A merged model is a trial without training."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.worker_tasks import trial_results, worker_task
from sweeper.store.events import Merge, Phase, TrialEnded, TrialProposed, TrialReported
from sweeper.store.state import Stage, SweepState, Trial
from trainables.methods import option_names
from trainables.models.merging import Recipe
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.spec import TrialSpec

if TYPE_CHECKING:
    import ray

logger = logging.getLogger(__name__)


def find_merge(state: SweepState, merge: Merge) -> Trial | None:
    """Return the trial of a merge. A failed trial does not count."""
    trials = [trial for trial in state.trials_of(Phase.MERGE) if trial.merge == merge]
    return next((item for item in trials if item.outcome is None or item.outcome.status is Status.FINISHED), None)


def propose_merge(sweep: OpenSweep, merge: Merge) -> None:
    """Record a trial for a merge, unless the sweep has it already. From now on, the event log holds the merge."""
    state = sweep.log.state
    if find_merge(state, merge) is not None:
        return
    trial_id = f"merged-{len(state.trials_of(Phase.MERGE)):03d}"
    spec = _spec(sweep)
    content = json.dumps([spec.spec_hash, asdict(merge)], sort_keys=True)
    unused = dict.fromkeys(("lr", *option_names()))
    own = {"method": merge.rule, "spec_hash": hashlib.sha256(content.encode()).hexdigest()[:16]}
    settings = {**spec.row(), **unused, **own}
    sweep.log.record(TrialProposed(trial_id, settings, phase=Phase.MERGE, merge=merge))


def missing_merges(sweep: OpenSweep) -> list[Trial]:
    """Return the merge trials that have no result."""
    return [trial for trial in sweep.log.state.trials_of(Phase.MERGE) if trial.stage is not Stage.ENDED]


def merge_models(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Make and measure the merged models that have no result, as Ray tasks. Each result is recorded at once.

    If a worker is lost or the disk is full, the next ``resume`` runs the trial. The function ``wait_for_head`` waits
    until Ray's head responds.
    """
    from trainables.scoring.item_log import write_item_log
    from trainables.worker.process import measure_merged_model

    trials = missing_merges(sweep)
    if not trials:
        return
    wait_for_head()
    task = worker_task(sweep, measure_merged_model, sweep.target)

    def submit(trial_id: str) -> ray.ObjectRef[Any]:
        return task(spec=_spec(sweep), recipe=_recipe(sweep, sweep.log.state.trials[trial_id]))

    trial_ids = [trial.id for trial in trials]
    for trial_id, result in trial_results(sweep, trial_ids, submit, "merging models", wait_for_head):
        losses, scores, execution = result
        try:
            write_item_log(sweep.out / "items" / f"{trial_id}.json", scores.items)
        except OSError as error:
            logger.warning("%s has no result, because its answers cannot be written: %s", trial_id, error)
            continue
        report = EpochReport(0, 0.0, losses=losses, metrics=scores.metrics, execution=execution)
        sweep.log.record(TrialReported(trial_id, report))
        checkpoint = f"checkpoints/{trial_id}"
        sweep.log.record(TrialEnded(trial_id, Outcome.after(report, status=Status.FINISHED, checkpoint=checkpoint)))


def _spec(sweep: OpenSweep) -> TrialSpec:
    """Return the settings that a merged model shares with the trials of the sweep's first seed."""
    settings = sweep.settings
    return replace(settings.base_spec(settings.target_seeds[0]), target_key=sweep.target.key)


def _recipe(sweep: OpenSweep, trial: Trial) -> Recipe:
    merge = trial.merge
    assert merge is not None

    def location(trial_id: str) -> str:
        folder = f"checkpoints/{trial_id}"
        return folder if sweep.settings.bucket else str((sweep.out / folder).resolve())

    return Recipe(
        folder=location(trial.id),
        unlearned=tuple(map(location, merge.trials)),
        finetuned=merge.finetuned,
        checkpoint=merge.checkpoint or None,
        rule=merge.rule,
        scale=merge.scale,
    )
