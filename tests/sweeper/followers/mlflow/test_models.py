"""MLflow's list of models has every checkpoint that the sweep keeps, and no other."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import ENDPOINT_NOT_FOUND

from sweeper.followers.mlflow.models import model_key
from sweeper.followers.mlflow.registry import Entry, register
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import EARLY, KEPT, THREE, Sweep, finish, folder_of, make_checkpoint


def test_each_kept_checkpoint_is_a_model_of_its_trials_run(trained: Sweep) -> None:
    finish(trained, None)
    models = trained.models()
    assert sorted(models) == [f"{trial_id} epoch {epoch}" for trial_id in ("00000", "00001") for epoch in (1, 2, 3)]
    for name, model in models.items():
        trial_id, _, epoch = name.split()
        run = trained.trial(trial_id)
        assert model.source_run_id == run.info.run_id
        assert model.params == run.data.params
        folder = f"checkpoints/{trial_id}" + (f"-epoch-{epoch}" if epoch != "3" else "")
        assert (model.tags["epoch"], model.tags["checkpoint"]) == (epoch, folder)
        assert {(metric.dataset_name, metric.dataset_digest) for metric in model.metrics} == {("tofu/forget01", "abc")}
        assert {output.step for output in run.outputs.model_outputs} == {1, 2, 3}
    assert {metric.key: metric.value for metric in models["00001 epoch 2"].metrics} == {
        "epoch": 2.0,
        "forget_loss": 1.0,
        "retain_loss": 0.5,
        "verbmem": 0.25,
        "utility": 0.5,
    }


def test_the_points_of_a_run_stay_those_of_the_reports_and_of_later_measurements(trained: Sweep) -> None:
    finish(trained, None)
    assert trained.points("00001") == [(5, 0.5), (10, 1.0), (15, 1.5)]
    assert trained.points("00001", "utility") == [(10, 0.5), (15, 0.9)]
    assert trained.trial("00001").data.metrics["utility"] == 0.9


@pytest.mark.parametrize("ascending", [True, False])
def test_a_search_sorts_the_epochs_by_a_metric(trained: Sweep, ascending: bool) -> None:
    finish(trained, None)
    experiment = trained.client.get_experiment_by_name(trained.experiment)
    order = [{"field_name": "metrics.retain_loss", "ascending": ascending}, {"field_name": "name"}]
    found = trained.client.search_logged_models([experiment.experiment_id], order_by=order)
    rows = [(epoch / 4, f"{trial_id} epoch {epoch}") for trial_id in ("00000", "00001") for epoch in (1, 2, 3)]
    rows.sort(key=lambda row: (row[0] if ascending else -row[0], row[1]))
    assert [model.name for model in found] == [name for _, name in rows]
    query = "metrics.retain_loss < 0.5 AND tags.trial_id = '00001'"
    (model,) = trained.client.search_logged_models([experiment.experiment_id], query)
    assert model.name == "00001 epoch 1"


def test_an_epoch_is_listed_while_its_checkpoint_is_kept(trained: Sweep) -> None:
    finish(trained, EARLY)
    former = trained.models()
    gone, kept = former["00000 epoch 1"], former["00001 epoch 1"]
    session = trained.open(kept=KEPT)
    session.checkpoints.keep([candidate for candidate in KEPT if candidate != ("00000", 1.0)])
    assert session.finish(front=(), recommended=EARLY).pending == 0
    assert sorted(trained.models()) == sorted(
        {*(model_key(*key) for key in KEPT), "00000 epoch 3", "00001 epoch 3"} - {"00000 epoch 1"}
    )
    assert not folder_of(gone).exists(), "a link to the removed checkpoint would keep its disk space"
    assert folder_of(kept).exists()
    assert finish(trained, EARLY).pending == 0
    again = trained.models()["00000 epoch 1"]
    assert (again.model_id != gone.model_id, str(again.status)) == (True, "READY")


def test_a_registered_model_stays_with_its_files(trained: Sweep) -> None:
    finish(trained, EARLY)
    model = trained.models()["00000 epoch 1"]
    entry = Entry(trained.id, "00000", 1.0, trained.folder / "checkpoints" / "00000-epoch-1", trained.folder, {}, "")
    register(entry, uri=trained.uri, experiment=trained.experiment, name=f"{trained.experiment} m", alias=None)
    assert trained.open(kept=KEPT[1:]).finish(front=(), recommended=EARLY).pending == 0
    assert trained.models()["00000 epoch 1"].model_id == model.model_id
    assert folder_of(model).exists()


def test_a_trial_that_repeats_its_epochs_has_each_value_once(sweep: Sweep) -> None:
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    session = sweep.open()
    session.start("00001")
    session.report("00001", 1, forget_loss=0.5, reported_at=1.7e9)
    session.report("00001", 2, forget_loss=1.0, reported_at=1.7e9 + 1)
    session.close()
    session = sweep.open()
    session.requeue("00001")
    session.start("00001")
    for step in (1, 2, 3):
        session.report("00001", step, forget_loss=step / 2, reported_at=1.7e9 + 10 + step)
    session.end("00001", steps=3, epochs_done=3.0, forget_loss=1.5, checkpoint="checkpoints/00001")
    session.checkpoints.keep([("00001", 2.0)])
    make_checkpoint(sweep.folder / "checkpoints" / "00001-epoch-2")
    assert session.finish(front=()).pending == 0
    assert sorted(sweep.models()) == ["00001 epoch 2", "00001 epoch 3"]
    assert sweep.points("00001") == THREE


def test_a_trial_that_runs_again_replaces_its_models(trained: Sweep) -> None:
    finish(trained, EARLY)
    former = trained.models()
    session = trained.open(kept=KEPT)
    session.requeue("00001", 5)
    session.start("00001")
    for epoch in (2, 3):
        session.report("00001", 5 * epoch, epoch=float(epoch), forget_loss=epoch / 3, retain_loss=epoch / 4)
    session.end("00001", steps=15, epochs_done=3.0, utility=0.9, checkpoint="checkpoints/00001")
    assert session.finish(front=()).pending == 0
    models = trained.models()
    is_same = {name: models[name].model_id == former[name].model_id for name in former}
    assert is_same == {name: name != "00001 epoch 2" and name != "00001 epoch 3" for name in former}
    assert {metric.key: metric.value for metric in models["00001 epoch 2"].metrics}["forget_loss"] == 2 / 3


def test_an_intermediate_epoch_is_listed_when_its_trial_ends_and_has_its_files_at_the_end(sweep: Sweep) -> None:
    make_checkpoint(sweep.folder / "checkpoints" / "00001-epoch-2")
    session = sweep.open(kept=[("00001", 2.0)])
    session.run("00001")
    session.start("00002")
    wait_until(lambda: "00001 epoch 2" in sweep.models())
    assert str(sweep.models()["00001 epoch 2"].status) == "PENDING"
    assert session.finish("interrupted", front=()).pending == 0
    assert str(sweep.models()["00001 epoch 2"].status) == "READY"


def test_the_frontier_is_tagged(trained: Sweep) -> None:
    for front, expected in (
        ((("00000", 1.0), ("00001", 3.0)), ["true", "true"]),
        ((("00000", 1.0),), ["true", "false"]),
    ):
        trained.open(kept=KEPT).finish(front=front)
        models = trained.models()
        assert [models[name].tags.get("pareto") for name in ("00000 epoch 1", "00001 epoch 3")] == expected
        assert models["00000 epoch 2"].tags.get("pareto") is None


def test_a_server_without_logged_models_has_all_else_and_the_sweep_says_so(
    trained: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = MlflowException("no such endpoint", ENDPOINT_NOT_FOUND)
    for name in ("search_logged_models", "create_logged_model"):
        monkeypatch.setattr(f"mlflow.MlflowClient.{name}", Mock(side_effect=missing))
    session = trained.open(kept=KEPT)
    session.run("00002", checkpoint="checkpoints/00002")
    summary = session.finish(front=(), recommended=EARLY)
    assert trained.trial("00002").info.status == "FINISHED"
    assert trained.parent.info.status == "FINISHED"
    assert summary.pending
    assert "no such endpoint" in summary.message


def test_a_name_of_a_model_has_no_dot() -> None:
    assert model_key("00007", 0.5) == "00007 epoch 0,5"
