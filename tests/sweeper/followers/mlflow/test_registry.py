"""A checkpoint becomes a version of a registered model, linked to its run, under an alias."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sweeper.followers.mlflow.registry import Entry, RegisteredVersion, RegistryError, register, registry_problems
from sweeper.followers.mlflow.runs import Recommendation
from tests.sweeper.followers.mlflow.conftest import EARLY, END, Sweep, digests, finish

FIRST = Recommendation(("00001", 1.0), "another candidate")
FOLDERS = {3.0: "checkpoints/00001", 2.0: "checkpoints/00001-epoch-2", 1.0: "checkpoints/00001-epoch-1"}


def registered(sweep: Sweep, answer: Recommendation, alias: str | None = None, **changed: Any) -> RegisteredVersion:
    options = {"uri": sweep.uri, "experiment": sweep.experiment, "name": f"{sweep.experiment} r", "alias": alias}
    trial_id, epoch = answer.candidate
    assert epoch is not None
    place, tags = sweep.folder / FOLDERS[epoch], {"verbmem": "0.1", "empty": ""}
    entry = Entry(sweep.id, trial_id, epoch, place, sweep.folder, tags, answer.description)
    return register(entry, **(options | changed))


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_logged_model_is_one_version_and_downloads_by_the_alias(
    trained: Sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_ended: bool
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", trained.uri)
    if has_ended:
        finish(trained, EARLY)
    models = trained.models()
    for number, answer in enumerate((END, EARLY, FIRST), start=1):
        _, epoch = answer.candidate
        model = models[f"00001 epoch {epoch:g}"]
        found = registered(trained, answer, "champion")
        assert (found.version, found.model_id, found.run_id) == (str(number), model.model_id, model.source_run_id)
        version = trained.client.get_model_version_by_alias(found.name, "champion")
        assert (version.run_id, version.tags) == (found.run_id, {"verbmem": "0.1"})
        listed = json.loads(trained.models()[model.name].tags["mlflow.modelVersions"])
        assert listed == [{"name": found.name, "version": number}]
        assert version.description == answer.description
        got = mlflow.artifacts.download_artifacts(found.uri, dst_path=str(tmp_path / str(number)))
        assert digests(Path(got)) == digests(trained.folder / FOLDERS[epoch or 0.0])
        again = registered(trained, answer)
        assert (again.version, again.uri) == (found.version, f"models:/{found.name}/{number}")
        assert str(trained.models()[model.name].status) == "READY"
    assert finish(trained, EARLY).pending == 0


def test_a_trial_a_server_or_a_registry_that_is_missing_is_named(
    trained: Sweep, dead_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import FEATURE_DISABLED

    with pytest.raises(RegistryError, match=f"00007.*resume {trained.folder}"):
        registered(trained, replace(END, candidate=("00007", 3.0)))
    with pytest.raises(RegistryError, match="00001"):
        registered(trained, END, experiment="another")
    with pytest.raises(RegistryError, match=dead_uri):
        registered(trained, END, uri=dead_uri)
    disabled = MlflowException("Model registry functionality is unavailable", FEATURE_DISABLED)
    monkeypatch.setattr("mlflow.MlflowClient.search_registered_models", Mock(side_effect=disabled))
    with pytest.raises(RegistryError, match="Model registry functionality is unavailable"):
        registered(trained, END)


@pytest.mark.parametrize(
    ("name", "alias", "uri", "named"),
    [
        (None, "champion", "http://localhost:5000", "--register NAME"),
        ("a/b", None, "http://localhost:5000", "a/b"),
        ("model", "v3", "http://localhost:5000", "v3"),
        ("model", None, "sqlite:///{tmp}/none.db", "none.db"),
        ("model", "champion-1", "http://localhost:5000", None),
    ],
)
def test_names_and_addresses_that_cannot_work_are_refused_before(
    tmp_path: Path, name: str | None, alias: str | None, uri: str, named: str | None
) -> None:
    problems = list(registry_problems(name, alias, uri.format(tmp=tmp_path)))
    assert len(problems) == (named is not None)
    assert named is None or named.format(tmp=tmp_path) in problems[0]
    assert not (tmp_path / "none.db").exists()
