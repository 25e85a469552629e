"""MLflow's data sets, models, kinds and descriptions: what its UI shows beside runs and metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.followers.mlflow.runs import LoggedData
from tests.sweeper.followers.mlflow.conftest import THREE, Sweep, make_checkpoint

DATA = {
    "0": LoggedData("authors", "a" * 64, "code", {"tags": {"data set": "authors"}}, {"forget": 20, "retain": 180}),
    "1": LoggedData("authors", "b" * 64, "code", {}, {}),
}


def test_every_run_has_its_data_set_by_name_and_digest(sweep: Sweep) -> None:
    for _ in range(2):  # the resumed sweep logs it again
        session = sweep.open(data=DATA)
        session.start("00000")
        session.start("00001", data_seed=1)
        session.close()
    parent, found = sweep.parent, {}
    for name, run in (("sweep", parent), ("00000", sweep.trial("00000")), ("00001", sweep.trial("00001"))):
        ((entry,), (tag,)) = run.inputs.dataset_inputs, run.inputs.dataset_inputs[0].tags
        found[name] = entry.dataset.digest
        assert (entry.dataset.name, tag.value) == ("authors", "unlearning")
    assert found == {"sweep": "a" * 36, "00000": "a" * 36, "00001": "b" * 36}
    dataset = parent.inputs.dataset_inputs[0].dataset
    assert json.loads(dataset.profile) == {"forget": 20, "retain": 180}
    assert (dataset.source_type, json.loads(dataset.source)) == ("code", {"tags": {"data set": "authors"}})


def test_a_checkpoint_is_a_logged_model_with_the_metrics_of_its_run_and_weights_stored_once(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
    session = sweep.open(data=DATA)
    session.start("00001")
    for step, loss in THREE:
        session.report("00001", step, forget_loss=loss, grad_norm=1.0)
    session.end("00001", forget_loss=1.5, utility=0.5, checkpoint="checkpoints/00001")
    session.run("00002")
    session.close()

    run = sweep.trial("00001")
    (model,) = sweep.client.search_logged_models([run.info.experiment_id])
    assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
    assert (model.source_run_id, model.status.value, model.name) == (
        run.info.run_id,
        "READY",
        "00001 gdiff c=0_4 lr=1e-4",
    )
    assert {metric.key: (metric.value, metric.step) for metric in model.metrics} == {
        "forget_loss": (1.5, 3),
        "utility": (0.5, 3),
    }
    assert {metric.dataset_digest for metric in model.metrics} == {"a" * 36}
    assert model.tags["spec_hash"] == "cafe"
    assert sweep.points("00001") == THREE
    weights = Path(model.artifact_location.removeprefix("file://")) / "model.safetensors"
    assert weights.stat().st_ino == (checkpoint / "model.safetensors").stat().st_ino
    assert not [path for path in weights.parent.rglob("*") if path.suffix in (".pkl", ".pickle", ".bin", ".pt")]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", sweep.uri)
    got = mlflow.artifacts.download_artifacts(f"models:/{model.model_id}", dst_path=str(tmp_path / "got"))
    assert Path(got, "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()


def test_a_server_that_knows_no_data_sets_and_no_models_has_the_runs(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import ENDPOINT_NOT_FOUND

    def unknown(*_: object, **__: object) -> None:
        raise MlflowException("no such endpoint", ENDPOINT_NOT_FOUND)

    for name in ("log_inputs", "search_logged_models", "create_logged_model"):
        monkeypatch.setattr(f"mlflow.MlflowClient.{name}", unknown)
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    session = sweep.open(data=DATA)
    session.run("00001", checkpoint="checkpoints/00001")
    assert session.close().message is None
    assert sweep.trial("00001").info.status == "FINISHED"


def test_the_experiment_is_of_the_kind_model_training_unless_somebody_said_otherwise(sweep: Sweep) -> None:
    sweep.open().close()
    experiment = sweep.client.get_experiment_by_name(sweep.experiment)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    sweep.client.set_experiment_tag(experiment.experiment_id, "mlflow.experimentKind", "finetuning")
    sweep.open().close()
    assert sweep.client.get_experiment_by_name(sweep.experiment).tags["mlflow.experimentKind"] == "finetuning"


def test_the_description_of_a_sweep_shows_its_frontier(sweep: Sweep) -> None:
    sweep.folder.mkdir()
    (sweep.folder / "pareto.png").write_bytes(b"picture")
    session = sweep.open()
    tags = {"mlflow.note.content": "Take trial 00001."}
    session.finish(artifacts=[sweep.folder / "pareto.png"], tags=tags, picture="pareto.png")
    parent = sweep.parent
    words, image = parent.data.tags["mlflow.note.content"].split("\n\n")
    assert words == "Take trial 00001."
    assert image == f"![pareto.png](get-artifact?path=pareto.png&run_uuid={parent.info.run_id})"
    assert [item.path for item in sweep.client.list_artifacts(parent.info.run_id)] == ["pareto.png"]
