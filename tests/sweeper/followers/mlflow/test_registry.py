"""A checkpoint becomes a version of a registered model, linked to its run, under an alias."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.mlflow.registry import Entry, Registered, RegistryError, register, registry_problems
from tests.sweeper.followers.mlflow.conftest import Sweep, make_checkpoint


@pytest.fixture
def whole(sweep: Sweep) -> Sweep:
    """A sweep of one finished trial, in MLflow."""
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    make_checkpoint(sweep.folder / "checkpoints" / "00001-epoch-2")
    session = sweep.open()
    session.run("00001", checkpoint="checkpoints/00001")
    assert session.close().pending == 0
    return sweep


def entry(sweep: Sweep, *, epoch: str | None = None, **changed: Any) -> Entry:
    folder = sweep.folder / "checkpoints" / ("00001" if epoch is None else f"00001-epoch-{epoch}")
    given = {
        "sweep_id": sweep.id,
        "trial_id": "00001",
        "epoch": epoch,
        "checkpoint": folder,
        "out": sweep.folder,
        "tags": {"verbmem": "0.1", "empty": ""},
        "description": "the knee",
    }
    return Entry(**(given | changed))


def registered(sweep: Sweep, made: Entry, alias: str | None = None, **given: Any) -> Registered:
    name = sweep.experiment.replace(" ", "-")
    return register(made, **{"uri": sweep.uri, "experiment": sweep.experiment, "name": name, "alias": alias} | given)


def test_the_checkpoint_of_a_trial_is_a_version_of_its_run_and_downloads_by_the_alias(
    whole: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    found = registered(whole, entry(whole), "champion")
    assert (found.version, found.uri) == ("1", f"models:/{found.name}@champion")
    assert found.run_id == whole.trial("00001").info.run_id
    version = whole.client.get_model_version_by_alias(found.name, "champion")
    assert (version.run_id, version.description, version.tags) == (found.run_id, "the knee", {"verbmem": "0.1"})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", whole.uri)
    got = Path(mlflow.artifacts.download_artifacts(found.uri, dst_path=str(tmp_path / "got")))
    weights = whole.folder / "checkpoints" / "00001" / "model.safetensors"
    assert (got / "model.safetensors").read_bytes() == weights.read_bytes()


def test_the_same_checkpoint_is_one_version_and_the_alias_moves(whole: Sweep) -> None:
    first = registered(whole, entry(whole), "champion")
    again = registered(whole, entry(whole))
    assert (again.version, again.uri) == (first.version, f"models:/{first.name}/1")
    early = registered(whole, entry(whole, epoch="2"), "champion")
    assert early.version == "2"
    assert str(whole.client.get_model_version_by_alias(first.name, "champion").version) == "2"
    kept = whole.client.list_artifacts(early.run_id, "checkpoint-epoch-2")
    assert {item.path for item in kept} == {"checkpoint-epoch-2/model.safetensors", "checkpoint-epoch-2/tokenizer"}


def test_a_trial_that_mlflow_does_not_know_is_named_with_the_remedy(whole: Sweep) -> None:
    with pytest.raises(RegistryError, match=f"00007.*resume {whole.folder}"):
        registered(whole, entry(whole, trial_id="00007"))
    with pytest.raises(RegistryError, match="00001"):
        registered(whole, entry(whole), experiment="another")


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_server_that_is_dead_or_has_no_registry_is_named(
    whole: Sweep, dead_uri: str, monkeypatch: pytest.MonkeyPatch, is_dead: bool
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import FEATURE_DISABLED

    def refuse(*_: object, **__: object) -> None:
        raise MlflowException("Model registry functionality is unavailable", FEATURE_DISABLED)

    if not is_dead:
        monkeypatch.setattr("mlflow.MlflowClient.search_registered_models", refuse)
    with pytest.raises(RegistryError) as raised:
        registered(whole, entry(whole), **({"uri": dead_uri} if is_dead else {}))
    assert (dead_uri if is_dead else "Model registry functionality is unavailable") in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(
    ("name", "alias", "named"),
    [
        (None, "champion", "--register NAME"),
        ("a/b", None, "a/b"),
        (" ", None, "empty"),
        ("model", "v3", "v3"),
        ("model", "two words", "two words"),
    ],
)
def test_names_that_mlflow_would_refuse_are_refused_before(name: str | None, alias: str | None, named: str) -> None:
    (problem,) = registry_problems(name, alias, "http://localhost:5000")
    assert named in problem


def test_an_address_that_cannot_work_is_reported_before(tmp_path: Path) -> None:
    assert str(tmp_path) in next(registry_problems("model", None, str(tmp_path)))
    missing = f"sqlite:///{tmp_path}/none.db"
    assert "none.db" in next(registry_problems("model", None, missing))
    assert not (tmp_path / "none.db").exists()
    assert list(registry_problems("model", "champion-1", "http://localhost:5000")) == []
