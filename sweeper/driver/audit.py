"""Fine-tune and measure the models of an audit after the search, and record the p-values of the sweep's models."""

from __future__ import annotations

import logging
from collections.abc import Callable

from search_spaces.common.messages import counted, first_line
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import is_interrupted
from sweeper.search.audit import PoolModel, missing_models
from sweeper.store.events import MetricsMeasured, Phase, TrialEnded, TrialProposed, TrialRequeued, TrialStarted
from trainables.run.reports import Execution, Outcome, Status
from trainables.target.target import target_recipe
from trainables.worker.failures import one_line

_POLL_SECONDS = 0.5  # seconds between two checks for signals and results

logger = logging.getLogger(__name__)


def missing_audit_models(sweep: OpenSweep) -> list[PoolModel]:
    """Return the models of the audit that are not measured (:func:`.missing_models`)."""
    return missing_models(sweep.settings, sweep.log.state, sweep.target.baseline)


def audit_models(sweep: OpenSweep, wait_for_head: Callable[[], None]) -> None:
    """Run the audit trials that have no result, as Ray tasks. Each result is recorded at once.

    A model that is already in the cache is only measured. If a worker is lost, the next ``resume`` runs its trial. The
    function ``wait_for_head`` waits until Ray's head responds.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    from sweeper.execution.ray_payload import task_with
    from trainables.worker.process import measure_finetuned_model

    settings, display = sweep.settings, sweep.display
    models = missing_audit_models(sweep)
    if not models:
        return
    cpus, gpus = settings.cpus_per_trial, sweep.gpus_per_trial
    inputs = {"target": sweep.target, "cpus": cpus, "gpus": gpus, "storage": settings.bucket}
    wait_for_head()
    submit = task_with(measure_finetuned_model, inputs, max_retries=1, num_cpus=cpus, num_gpus=gpus)
    model_by_task = {}
    for model in models:
        _propose(sweep, model)
        model_by_task[submit(spec=model.spec(settings), saw=model.saw)] = model
    total = counted(len(models), "model")
    while model_by_task and not is_interrupted():
        display.activity = f"auditing: {len(model_by_task)} of {total} remain"
        sweep.log.flush()
        done_tasks, _ = ray.wait(list(model_by_task), timeout=_POLL_SECONDS)
        for task in done_tasks:
            model = model_by_task.pop(task)
            try:
                metrics, execution = ray.get(task)
                outcome = Outcome(status=Status.FINISHED, metrics=metrics, execution=execution)
            except RayTaskError as error:  # the model cannot be fine-tuned or measured
                reason = one_line(str(error)) or type(error).__name__
                outcome = Outcome(status=Status.FAILED, error=reason, execution=Execution())
            except RayError as error:
                logger.warning("%s has no result, because its worker was lost: %s", model.trial_id, first_line(error))
                continue
            sweep.log.record(TrialEnded(model.trial_id, outcome))


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
    """Record the start of an audit trial. Its settings describe the model, not a method of unlearning."""
    trial = sweep.log.state.trials.get(model.trial_id)
    if trial is not None and trial.outcome is not None:  # the sweep has new attacks
        sweep.log.record(TrialRequeued(model.trial_id, -1))
    if trial is None:
        spec = model.spec(sweep.settings)
        recipe = target_recipe(spec)
        settings = {**spec.row(), "method": model.pool, "lr": recipe.lr, "epochs": recipe.epochs, "c": None}
        sweep.log.record(TrialProposed(model.trial_id, settings, phase=Phase.AUDIT))
    sweep.log.record(TrialStarted(model.trial_id))
