"""Register a checkpoint in MLflow's model registry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.common.messages import resume_command
from sweeper.followers.mlflow.runs import DELIVERED, RECOMMENDED_EPOCH, RECOMMENDED_TRIAL, fit_tags
from sweeper.followers.mlflow.store import log_artifact, plain_reason, prepare_environment, quiet_mlflow
from sweeper.settings.tracking_uri import missing_database, redact_uri, tracking_problem

_NAME = re.compile(r"[^/:'\"]+")
_ALIAS = re.compile(r"[\w-]+")
_TAKEN = re.compile(r"latest|v\d+", re.IGNORECASE)
_NO_REGISTRY = ("FEATURE_DISABLED", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED")


class RegistryError(Exception):
    """Raised if the checkpoint cannot be registered; the message is for the user."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A model to register. ``epoch`` is None for the trial's last epoch; ``out`` is the sweep's folder."""

    sweep_id: str
    trial_id: str
    epoch: str | None
    checkpoint: Path
    out: Path
    tags: Mapping[str, object]
    description: str


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """A registered version of a model. MLflow can download the model from ``uri``."""

    name: str
    version: str
    alias: str | None
    uri: str
    run_id: str


def registry_problems(name: str | None, alias: str | None, uri: str) -> Iterator[str]:
    """Yield error messages about the model name, the alias and the server's address."""
    if name is None:
        if alias is not None:
            yield "--alias requires --register NAME, which names the registered model"
        return
    if not _NAME.fullmatch(name.strip()):
        yield f"--register '{name}': the name of a registered model must not be empty or contain /, : or quotes"
    if alias is not None and (not _ALIAS.fullmatch(alias) or _TAKEN.fullmatch(alias)):
        yield f"--alias '{alias}': expected only letters, digits, _ and -; 'latest' and names like 'v1' are reserved"
    if problem := tracking_problem(uri) or missing_database(uri):
        yield problem


def register(entry: Entry, *, uri: str, experiment: str, name: str, alias: str | None) -> RegisteredVersion:
    """Register a checkpoint as a version of the model ``name``. If an alias is given, set the alias.

    If the checkpoint is already registered, its version gets the alias. If the trial's MLflow run lacks the checkpoint,
    the checkpoint is first logged to the run.

    Raises:
        RegistryError: the server does not answer, has no registry, or does not know the trial.
    """
    prepare_environment()
    try:
        return _register(entry, uri=uri, experiment=experiment, name=name, alias=alias)
    except RegistryError:
        raise
    except Exception as error:
        if getattr(error, "error_code", None) in _NO_REGISTRY or "registry" in str(error).lower():
            raise RegistryError(
                f"MLflow at {redact_uri(uri)} has no model registry ({plain_reason(error)}). Use MLflow with a database"
            ) from error
        raise RegistryError(f"MLflow at {redact_uri(uri)} cannot be used ({plain_reason(error)})") from error


def _register(entry: Entry, *, uri: str, experiment: str, name: str, alias: str | None) -> RegisteredVersion:
    from mlflow import MlflowClient

    quiet_mlflow()
    client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
    run = _run_of(client, entry, uri=uri, experiment=experiment)
    run_id = run.info.run_id
    if not list(client.search_registered_models(filter_string=f"name = '{name}'")):
        client.create_registered_model(name)
    is_own_run = entry.epoch is None or RECOMMENDED_EPOCH in run.data.tags
    artifact_path = "checkpoint" if is_own_run else f"checkpoint-epoch-{entry.epoch}"
    if not is_own_run or DELIVERED not in run.data.tags:
        log_artifact(client, run_id, entry.checkpoint, artifact_path=artifact_path)
    source = f"{run.info.artifact_uri}/{artifact_path}"
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
    version = next((candidate for candidate in versions if candidate.source == source), None)
    if version is None:
        version = client.create_model_version(
            name, source, run_id, tags=fit_tags(entry.tags), description=entry.description
        )
    if alias is not None:
        client.set_registered_model_alias(name, alias, version.version)
    reference = f"{name}@{alias}" if alias is not None else f"{name}/{version.version}"
    return RegisteredVersion(name, str(version.version), alias, f"models:/{reference}", run_id)


def _run_of(client: Any, entry: Entry, *, uri: str, experiment: str) -> Any:
    """Return the MLflow run of the epoch if this run has the checkpoint, otherwise the run of the trial."""
    stored_experiment = client.get_experiment_by_name(experiment)
    epoch_condition = (
        f"tags.{RECOMMENDED_TRIAL} = '{entry.trial_id}' and tags.{RECOMMENDED_EPOCH} = '{entry.epoch}' "
        f"and tags.{DELIVERED} != ''"  # the sweep's parent run also has the first two tags
    )
    trial_condition = f"tags.trial_id = '{entry.trial_id}'"
    if stored_experiment is not None:
        for condition in (epoch_condition, trial_condition):
            query = f"tags.sweep_id = '{entry.sweep_id}' and {condition}"
            runs = client.search_runs([stored_experiment.experiment_id], query)
            if runs:
                return runs[0]
    raise RegistryError(
        f"MLflow at {redact_uri(uri)} has no run for trial {entry.trial_id} of this sweep. Send the missing records "
        f"with {resume_command(entry.out)}"
    )
