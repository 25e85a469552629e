"""Check and plan the audit of a sweep, before any work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from analysis.audit.audit import LEVEL
from analysis.audit.conformal import smallest_p
from analysis.tables.sweep_file import SweepFile
from search_spaces.common.messages import counted, resume_command, some_of
from sweeper.checks.world import source_problems
from sweeper.search.audit import PoolModel, missing_models
from sweeper.settings.options import AuditOptions
from sweeper.settings.reading import Problem, about
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase
from sweeper.store.tables import ResultTables
from trainables.metrics.registry import METRICS, metrics_in
from trainables.target.cache import Cache, is_trained
from trainables.target.target import TargetSpec, target_recipe, target_spec_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The budget of an audit. The fields are the keys of ``--dry-run --json``.

    Attributes:
        models: the number of models in each pool.
        missing: the number of models that the audit still has to measure.
        cached: the number of missing models that are fine-tuned already, on this machine.
        max_epochs: the largest number of epochs that the other missing models train. Training ends earlier if the
            recipe stops as soon as the data are memorised.
        seconds: the estimated sum of the durations of the missing models; None before a first model has ended.
        smallest_p: the smallest possible p-value with pools of this size.
    """

    out: str
    models: int
    missing: int
    cached: int
    max_epochs: int
    seconds: float | None
    smallest_p: float

    @property
    def can_reject(self) -> bool:
        return self.smallest_p <= LEVEL


def audit_problems(options: AuditOptions, settings: SweepSettings, out: Path) -> Iterator[Problem]:
    """Yield the problems with an audit of the sweep in ``out``.

    Raises:
        AnalysisError, EventLogError: a file of the sweep cannot be read.
    """
    if options.models is None and "models" not in options.raw:  # an invalid value is another problem
        text = f"audit {out} needs a budget: give --models N, the number of models to fine-tune without the forget set"
        least = round(1 / LEVEL) - 1
        yield Problem(f"{text}, and again as many with it (at least {least} for a test at the {LEVEL:.0%} level)")
    if settings.base.target_path is not None:
        text = "the target was given as a finished model (--target-path), so its base model is unknown"
        yield Problem(
            f"{text}, and no further model can be fine-tuned like it; audit a sweep with --model or --model-path"
        )
    if settings.seeds_vary == "data" and settings.seeds > 1:
        text = "the trials of the sweep forget different data (--seeds-vary data), but a pool never saw one forget set"
        yield Problem(f"{text}; audit a sweep with --seeds-vary order")
    yield from about("", *source_problems(settings.measured_spec(settings.seed), ask_hub=True))
    if not read_state(out).ended_of(Phase.SEARCH):
        yield Problem(f"the sweep in {out} has no ended trial, so there is no model to audit; {resume_command(out)}")
        return
    if (missing := _lost_checkpoints(settings, out)) and settings.bucket is None:
        yield Problem(
            f"the checkpoints {some_of(missing)} no longer exist, so the metrics of these models cannot be measured: "
            "restore the folders, or run the sweep again"
        )


def audit_plan(settings: SweepSettings, out: Path) -> AuditPlan:
    """Return the budget of an audit. The settings must have no problems (:func:`audit_problems`)."""
    state = read_state(out)
    missing = missing_models(settings, state, SweepFile.read(out).baseline)
    to_train = [model for model in missing if not _is_cached(model, settings)]
    times = [
        trial.outcome.execution.wall_seconds
        for trial in state.ended_of(Phase.AUDIT)
        if trial.outcome is not None and trial.outcome.execution.wall_seconds is not None
    ]
    return AuditPlan(
        out=str(out),
        models=settings.audit,
        missing=len(missing),
        cached=len(missing) - len(to_train),
        max_epochs=sum(target_recipe(model.spec(settings)).epochs for model in to_train),
        seconds=len(to_train) * median(times) if times else None,
        smallest_p=smallest_p(settings.audit),
    )


def format_plan(plan: AuditPlan) -> list[str]:
    """Return the budget as lines of text."""
    from analysis.words import duration

    pools = f"{plan.models} that never see the forget set, and {plan.models} that see it"
    lines = [f"models  {pools}; {plan.missing} not yet measured, {plan.cached} of them in the cache"]
    time = "unknown before a first model has ended" if plan.seconds is None else f"about {duration(plan.seconds)}"
    lines.append(f"cost    at most {counted(plan.max_epochs, 'epoch')} of fine-tuning; time: {time}")
    ability = "can" if plan.can_reject else "cannot"
    lines.append(
        f"test    the smallest possible p-value is {plan.smallest_p:.3g}, so the audit {ability} reject at the "
        f"{LEVEL:.0%} level"
    )
    return lines


def _lost_checkpoints(settings: SweepSettings, out: Path) -> list[str]:
    """Return the folders of candidates.csv that no longer exist, of models whose metrics are not measured."""
    names = [name for name in metrics_in(settings.base.metrics) if not METRICS[name].comes_with_losses]
    table = ResultTables(out).candidates
    rows = table.read() if table.path.is_file() else []
    unmeasured = [row["checkpoint"] for row in rows if not any(row.get(name) for name in names)]
    return [folder for folder in unmeasured if folder and not (out / folder).is_dir()]


def _is_cached(model: PoolModel, settings: SweepSettings) -> bool:
    spec: TargetSpec = target_spec_of(model.spec(settings))
    return is_trained(Cache().model(spec.trained_key if model.saw else spec.retain_key))
