"""Register a checkpoint in MLflow's model registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.common.messages import resume_command
from sweeper.followers.mlflow.artifacts import log_artifact, prepare_environment
from sweeper.followers.mlflow.models import model_key
from sweeper.followers.mlflow.runs import fit_tags
from sweeper.followers.mlflow.store import plain_reason, quiet_mlflow
from sweeper.followers.mlflow.stored import REGISTERED, StoredModel
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
    """A model to register. ``out`` is the sweep's folder."""

    sweep_id: str
    trial_id: str
    epoch: float
    checkpoint: Path
    out: Path
    tags: Mapping[str, object]
    description: str


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """A registered version of the logged model ``model_id``. MLflow can download the version from ``uri``."""

    name: str
    version: str
    alias: str | None
    uri: str
    model_id: str
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
    """Register the logged model of a checkpoint as a version of the model ``name``, with the alias if one is given.

    If the logged model is already registered, its version gets the alias. If MLflow lacks the files of the logged
    model, the files are sent first.

    Raises:
        RegistryError: the server does not answer, has no registry, or does not have the logged model.
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
    model = _logged_model(client, entry, uri=uri, experiment=experiment)
    stored = StoredModel.of(model)
    if not list(client.search_registered_models(filter_string=f"name = '{name}'")):
        client.create_registered_model(name)
    if not stored.ready:
        log_artifact(client, stored, entry.checkpoint)
        client.finalize_logged_model(stored.id, "READY")
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{model.source_run_id}'")
    version = next((candidate for candidate in versions if candidate.source == stored.location), None)
    if version is None:
        version = client.create_model_version(
            name,
            stored.location,
            model.source_run_id,
            tags=fit_tags(entry.tags),
            description=entry.description,
            model_id=stored.id,
        )
    _list_version(client, stored, name=name, version=version.version)
    if alias is not None:
        client.set_registered_model_alias(name, alias, version.version)
    reference = f"{name}@{alias}" if alias is not None else f"{name}/{version.version}"
    uri = f"models:/{reference}"
    return RegisteredVersion(name, str(version.version), alias, uri, stored.id, model.source_run_id)


def _list_version(client: Any, model: StoredModel, *, name: str, version: str) -> None:
    """Add a registered version to those that a logged model lists. A server does so, too, but a database does not."""
    versions = json.loads(model.tags.get(REGISTERED, "[]"))
    entry = {"name": name, "version": version}
    if entry not in versions:
        client.set_logged_model_tags(model.id, {REGISTERED: json.dumps([*versions, entry])})


def _logged_model(client: Any, entry: Entry, *, uri: str, experiment: str) -> Any:
    """Return the logged model of the epoch."""
    stored_experiment = client.get_experiment_by_name(experiment)
    if stored_experiment is not None:
        query = f"tags.sweep_id = '{entry.sweep_id}' AND name = '{model_key(entry.trial_id, entry.epoch)}'"
        models = client.search_logged_models([stored_experiment.experiment_id], query)
        if models:
            return models[0]
    raise RegistryError(
        f"MLflow at {redact_uri(uri)} has no model for epoch {entry.epoch:g} of trial {entry.trial_id} of this sweep. "
        f"Send the missing records with {resume_command(entry.out)}"
    )
