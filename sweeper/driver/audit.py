"""Fine-tune and measure the models of an audit after the search, and record the p-values of the sweep's models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.worker_tasks import trial_results, worker_task
from sweeper.search.audit import PoolModel, missing_models
from sweeper.store.events import MetricsMeasured, Phase, TrialEnded, TrialProposed, TrialRequeued
from trainables.run.reports import Outcome, Status
from trainables.target.target import target_recipe

if TYPE_CHECKING:
    import ray


def missing_audit_models(sweep: OpenSweep) -> list[PoolModel]:
    """Return the models of the audit that are not measured (:func:`.missing_models`)."""
    return missing_models(sweep.settings, sweep.log.state, sweep.target.baseline)


def audit_models(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Run the audit trials that have no result, as Ray tasks. Each result is recorded at once.

    A model that is already in the cache is only measured. If a worker is lost, the next ``resume`` runs its trial. The
    function ``wait_for_head`` waits until Ray's head responds.
    """
    from trainables.worker.process import measure_finetuned_model

    models = missing_audit_models(sweep)
    if not models:
        return
    wait_for_head()
    task = worker_task(sweep, measure_finetuned_model, sweep.target)
    by_id = {model.trial_id: model for model in models}

    def submit(trial_id: str) -> ray.ObjectRef[Any]:
        model = by_id[trial_id]
        return task(spec=model.spec(sweep.settings), saw=model.saw)

    for model in models:
        _propose(sweep, model)
    for trial_id, (metrics, execution) in trial_results(sweep, list(by_id), submit, "auditing models", wait_for_head):
        sweep.log.record(TrialEnded(trial_id, Outcome(status=Status.FINISHED, metrics=metrics, execution=execution)))


def record_p_values(sweep: OpenSweep) -> None:
    """Record the p-values of the sweep's models, if they are new. The audit trials must have ended."""
    if not sweep.settings.audit or missing_audit_models(sweep):
        return
    from analysis.audit.audit import IGNORANCE, KNOWLEDGE, audit_of
    from analysis.tables.sources import read_source

    sweep.log.flush()
    source = read_source(sweep.out)
    audit = audit_of(source.table, source.sweep)
    for model in () if audit is None else audit.models:
        values = {IGNORANCE: model.ignorance_p, KNOWLEDGE: model.knowledge_p}
        known = sweep.log.state.trials[model.trial_id].measured.get(model.step, {})
        if any(known.get(name) != value for name, value in values.items()):
            sweep.log.record(MetricsMeasured(model.trial_id, model.step, values))


def _propose(sweep: OpenSweep, model: PoolModel) -> None:
    """Record an audit trial that is to run. Its settings describe the model, not a method of unlearning."""
    trial = sweep.log.state.trials.get(model.trial_id)
    if trial is not None and trial.outcome is not None:  # the sweep has new attacks
        sweep.log.record(TrialRequeued(model.trial_id, -1))
    if trial is None:
        spec = model.spec(sweep.settings)
        recipe = target_recipe(spec)
        settings = {**spec.row(), "method": model.pool, "lr": recipe.lr, "epochs": recipe.epochs, "c": None}
        sweep.log.record(TrialProposed(model.trial_id, settings, phase=Phase.AUDIT))
