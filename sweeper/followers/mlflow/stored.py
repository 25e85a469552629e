"""What MLflow has stored of a sweep: its runs and logged models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

REGISTERED = "mlflow.modelVersions"
"""MLflow's tag of a logged model with the versions of registered models that were created from it, in JSON."""


@dataclass(slots=True)
class StoredRun:
    """A run that MLflow has stored.

    Attributes:
        location: the URI of the run's artifacts.
        step: the largest step of the run's metrics, or -1 without metrics.
        models: the ids of the logged models that are outputs of the run.
        sent: what this process has sent: "" (nothing), "running", or the end time of the trial.
    """

    id: str
    location: str = ""
    active: bool = True
    status: str = "RUNNING"
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    step: int = -1
    models: set[str] = field(default_factory=set)
    sent: str = ""

    @classmethod
    def of(cls, run: Any) -> StoredRun:
        """Return the fields of MLflow's ``Run``."""
        return cls(
            id=run.info.run_id,
            location=run.info.artifact_uri,
            active=run.info.lifecycle_stage == "active",
            status=run.info.status,
            params=dict(run.data.params),
            tags=dict(run.data.tags),
            metrics=dict(run.data.metrics),
            step=max((metric.step for metric in run.data.to_proto().metrics), default=-1),
            models={output.model_id for output in run.outputs.model_outputs} if run.outputs else set(),
        )


@dataclass(slots=True)
class StoredModel:
    """A logged model that MLflow has stored.

    Attributes:
        created_at: in milliseconds since 1970.
        location: the URI of the model's files, which are complete if ``ready``.
    """

    id: str
    location: str
    created_at: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    ready: bool = False

    @classmethod
    def of(cls, model: Any) -> StoredModel:
        """Return the fields of MLflow's ``LoggedModel``. If a metric has several values, the latest is used."""
        metrics = sorted(model.metrics or (), key=lambda metric: (metric.timestamp, metric.step))
        return cls(
            id=model.model_id,
            location=model.artifact_location,
            created_at=model.creation_timestamp,
            tags=dict(model.tags),
            metrics={metric.key: metric.value for metric in metrics},
            ready=str(model.status) == "READY",
        )
