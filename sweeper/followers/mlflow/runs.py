"""Build the parameters, tags and metrics of a sweep's MLflow runs, within MLflow's length limits."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from search_spaces.common.values import as_float
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import PARAMETERS
from sweeper.store.events import Phase
from sweeper.store.progress import settings_text
from sweeper.store.state import Trial
from trainables.metrics.registry import METRICS, primary_metrics
from trainables.run.reports import Outcome, Status
from trainables.target.target import Target

SWEEP = "sweep"
"""The key and the ``trial_id`` tag of the sweep's parent run."""
NOTE = "mlflow.note.content"
"""The tag that MLflow's UI shows as the description of a run or model (Markdown)."""
DELIVERED = "delivered"
"""The tag of a run whose metrics and artifacts have all been sent. The value is the end time of the trial."""
PARETO = "pareto"
"""The tag that shows whether a model, or a model of a trial's run, is on the frontier."""
RECOMMENDED = "recommended"
"""The tag of the model that the sweep recommends."""
MLFLOW_STATUS = {
    Status.FINISHED: "FINISHED",
    Status.STOPPED: "KILLED",
    "interrupted": "KILLED",
    Status.DIVERGED: "FAILED",
    Status.FAILED: "FAILED",
}

NO_TABLES: Mapping[str, object] = MappingProxyType({})
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000  # MLflow 3 accepts 8,000, servers before 2.16 accept 5,000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """An MLflow run to create. ``key`` is unique in the sweep; ``start_time`` is in milliseconds since 1970."""

    key: str
    parent: str | None
    name: str
    params: Mapping[str, str]
    tags: Mapping[str, str]
    start_time: int


Candidate = tuple[str, float | None]
"""A trial id and an epoch; None is the trial's last epoch."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The model that a sweep recommends. ``description`` is Markdown."""

    candidate: Candidate
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEnd:
    """The final results of a sweep that MLflow receives. ``end_time`` is in milliseconds since 1970."""

    status: str
    metrics: Mapping[str, object] = field(default_factory=dict)
    artifacts: Sequence[Path] = ()
    tables: Mapping[str, object] = field(default_factory=dict)  # by key of the run, as columns and rows
    tags: Mapping[str, object] = field(default_factory=dict)
    front: Collection[Candidate] | None = None  # if None, the tags of runs and models do not change
    recommended: Recommendation | None = None
    end_time: int = field(default_factory=lambda: milliseconds(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedSweep:
    """A sweep as recorded in MLflow. Builds the runs of the sweep and its trials.

    Attributes:
        data_set: the name and the digest of the data.
        columns: the metrics that MLflow's UI shows first: the primary metrics and the columns of the objectives.
    """

    id: str
    name: str
    out: Path
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, object] = field(default_factory=dict)
    data_set: tuple[str, str] = ("data", "0")
    columns: tuple[str, ...] = ()
    opened_at: int = field(default_factory=lambda: milliseconds(None))

    @classmethod
    def of(cls, settings: SweepSettings, target: Target, *, id: str, out: Path) -> TrackedSweep:
        """Return the sweep in the folder ``out``."""
        params = {"trials": settings.trials, "sampler": settings.sampler, **settings.params}
        tags = {"out": out, "objectives": settings.objectives}
        objectives = [item.column for item in settings.parsed_objectives]
        return cls(
            id=id,
            name=settings.name,
            out=out,
            params=params,
            tags=tags,
            data_set=(target.data.name, target.data.content_hash[:8]),
            columns=tuple(dict.fromkeys([*primary_metrics(target.data.modality), *objectives])),
        )

    @property
    def view(self) -> dict[str, object]:
        """The state of a page of MLflow's UI that lists the trials of this sweep with :attr:`columns`.

        The page lists the trials that can be recommended: those of the search, and merged models.
        """
        names = [f"metrics.`{name}`" for name in self.columns] + ["params.`method`", "params.`lr`"]
        # MLflow's search has no OR. The run of the sweep has no phase.
        left_out = " AND ".join(f"tags.phase != '{phase}'" for phase in (Phase.CONFIRM, Phase.AUDIT))
        return {
            "searchFilter": f"tags.sweep_id = '{self.id}' AND {left_out}",
            # Sorted by time, the UI would fold the trials into the sweep's run.
            "orderByKey": names[0],
            "orderByAsc": not self.columns or METRICS[self.columns[0]].direction == "min",
            "selectedColumns": names,
        }

    def run(self) -> NewRun:
        return NewRun(
            key=SWEEP,
            parent=None,
            name=self.name,
            params=fit_params(self.params),
            tags=fit_tags({**self.tags, **self._tags(SWEEP)}),
            start_time=self.opened_at,
        )

    def trial_run(self, trial: Trial) -> NewRun:
        settings, outcome = trial.settings, trial.outcome
        started_at = trial.started_at
        if outcome is not None:
            started_at = outcome.execution.started_at or started_at or outcome.ended_at
        tags = {name: settings.get(name) for name in ("spec_hash", "method", "auto_lr")}
        tags |= {"phase": str(trial.phase), "confirms": trial.confirms}
        tags |= {} if trial.merge is None else trial.merge.row()
        return NewRun(
            key=trial.id,
            parent=SWEEP,
            name=f"{trial.id} {settings_text(settings)}",
            params=fit_params({name: settings.get(name) for name in PARAMETERS}),
            tags=fit_tags({**tags, **self._tags(trial.id)}),
            start_time=milliseconds(started_at),
        )

    def _tags(self, trial_id: str) -> dict[str, object]:
        return {"sweep": self.name, "status": "running", "sweep_id": self.id, "trial_id": trial_id}


def end_of_sweep(
    status: str, pareto: Mapping[str, Any], artifacts: Sequence[Path] = (), tables: Mapping[str, object] = NO_TABLES
) -> SweepEnd:
    """Return the final results of a sweep. ``pareto`` is the content of pareto.json."""
    answer = pareto.get("answer")
    return SweepEnd(
        status=status,
        metrics={"hypervolume": pareto.get("hypervolume")},
        artifacts=artifacts,
        tables=tables,
        tags=_answer_tags(answer),
        front={(member["trial_id"], member["epoch"]) for member in pareto.get("front", ())},
        recommended=_recommended(answer),
    )


def _recommended(answer: Mapping[str, Any] | None) -> Recommendation | None:
    if not answer or not answer["recommended"]:
        return None
    paragraphs = (answer["headline"], *answer["judged"])
    return Recommendation((answer["trial_id"], answer["epoch"]), description="\n\n".join(paragraphs))


def _answer_tags(answer: Mapping[str, Any] | None) -> dict[str, object]:
    if not answer:
        return {}
    note = " ".join(filter(None, (answer["headline"], answer["advice"], *answer["judged"])))
    outcome = {"outcome": answer["outcome"], "recommended_trial": "none", "recommended_epoch": "none"}
    if answer["recommended"]:
        outcome["recommended_trial"] = answer["trial_id"]
        outcome["recommended_epoch"] = "last" if answer["epoch"] is None else f"{answer['epoch']:g}"
    return {"answer": answer["headline"], **outcome, NOTE: note}


def end_tags(outcome: Outcome) -> dict[str, object]:
    """Return the tags of a trial's run that are set when the trial ends."""
    return {"status": outcome.status, "error": outcome.error}


def ended_at(trial: Trial) -> str:
    """Return a trial's end time in seconds since 1970, as text; "" before the end."""
    return "" if trial.outcome is None else repr(trial.outcome.ended_at)


def milliseconds(seconds: object) -> int:
    """Convert seconds since 1970 to milliseconds. None, 0 and "" stand for the current time."""
    return int(1000 * float(str(seconds or time.time())))


def finite_metrics(values: Mapping[str, object], names: Iterable[str]) -> dict[str, float]:
    """Return the metrics in ``names`` with a finite value. MLflow would plot NaN as 0 and infinity as 1.8e308."""
    metrics = {name: as_float(values.get(name)) for name in names}
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def fit_params(values: Mapping[str, object], *, length: int = _PARAM_LENGTH) -> dict[str, str]:
    """Return parameters as texts of at most ``length`` characters. None and "" are left out."""
    return {name: _cut(str(value), length) for name, value in values.items() if value not in (None, "")}


def fit_tags(values: Mapping[str, object]) -> dict[str, str]:
    """Return tags as texts of MLflow's maximum length. None and "" are left out."""
    return fit_params(values, length=_TAG_LENGTH)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
