"""What MLflow has of a sweep: every trial, every value, the recommended checkpoint."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.contract.product import Finished, Product, digests, wait_until
from tests.contract.tracking import Records, answers, assert_complete, free_port, kept, records

pytestmark = pytest.mark.ray

METRICS = ("forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "utility", "truth_ratio")


@pytest.fixture(scope="module")
def found(reference: Finished) -> Records:
    return records(reference.product.tracking_uri, "reference")


# The records of a sweep -----------------------------------------------------------------------------------------------


def test_every_trial_is_a_child_run_with_the_values_of_the_tables(found: Records, reference: Finished) -> None:
    assert len(found.trials) == 6
    assert found.parent.info.status == "FINISHED"
    assert_complete(found, reference.sweep, METRICS)


def test_the_parameters_of_a_run_are_the_settings_of_its_trial(found: Records, reference: Finished) -> None:
    for row in reference.sweep.trials:
        run = found.trials[row["trial_id"]]
        assert run.data.tags["spec_hash"] == row["spec_hash"]
        assert {"method", "lr", "epochs", "batch_size", "optimizer", "seed"} <= set(run.data.params)
        for name, value in run.data.params.items():
            if name in row:
                assert same_value(value, row[name]), f"{name} of trial {row['trial_id']}"


def same_value(one: str, other: str) -> bool:
    """Whether two texts are the same setting: "1e-3" is "0.001", and what is not set may be empty or None."""
    one, other = ("" if text in {"None", "null"} else text for text in (one, other))
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def test_each_kept_checkpoint_is_a_model_with_its_files(found: Records, reference: Finished, tmp_path: Path) -> None:
    for number, (key, row) in enumerate(kept(reference.sweep).items()):
        model, (trial_id, epoch) = found.models[key], key
        assert digests(found.download(model, tmp_path / str(number))) == digests(
            reference.sweep.out / row["checkpoint"]
        )
        run = found.trials[trial_id]
        assert (model.source_run_id, model.params) == (run.info.run_id, run.data.params)
        assert epoch in {output.step for output in run.outputs.model_outputs if output.model_id == model.model_id}


@pytest.mark.parametrize("metric", ["retain_loss", "verbmem"])
def test_a_search_for_models_has_the_order_of_the_table(found: Records, reference: Finished, metric: str) -> None:
    order = [{"field_name": f"metrics.{metric}", "ascending": True}]
    models = found.client.search_logged_models([found.parent.info.experiment_id], order_by=order)
    rows = [row for row in kept(reference.sweep).values() if row[metric]]
    values = [value for model in models for value in [m.value for m in model.metrics if m.key == metric]]
    assert values == sorted(float(row[metric]) for row in rows)


def test_the_sweeps_run_keeps_tables_and_report(found: Records, reference: Finished) -> None:
    names = {item.path for item in found.client.list_artifacts(found.parent.info.run_id)}
    assert names >= {"sweep.json", "trials.csv", "history.csv", "candidates.csv", "pareto.json", "report.html"}
    assert found.parent.data.metrics["hypervolume"] == reference.sweep.pareto["hypervolume"]


def test_one_model_is_recommended_and_is_the_answers_epoch(found: Records, reference: Finished, tmp_path: Path) -> None:
    sweep, answer = reference.sweep, reference.sweep.pareto["answer"]
    assert answer["recommended"] is True
    (model,) = found.recommended
    row = sweep.candidate(answer["trial_id"], float(answer["epoch"]))
    metrics = {metric.key: metric.value for metric in model.metrics if metric.key in row}
    assert set(METRICS[:3]) <= set(metrics)
    assert {name for name in METRICS if row[name]} <= set(metrics)
    for name, value in metrics.items():
        assert value == float(row[name]), name
    assert digests(found.download(model, tmp_path)) == digests(sweep.out / answer["checkpoint"])
    assert model.tags["mlflow.note.content"].strip()


# The UI ---------------------------------------------------------------------------------------------------------------


def test_the_ui_answers_on_this_machine_and_ends_by_ctrl_c(product: Product, reference: Finished) -> None:
    port, database = free_port(), reference.product.tracking_uri
    process = product.start("ui", "--tracking-uri", database, "--port", str(port), "--no-browser")
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), process)
    process.send_signal(signal.SIGINT)
    product.finish(process, code=130)
    assert not answers(f"http://127.0.0.1:{port}/")
