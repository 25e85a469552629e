"""What MLflow has of a sweep: every trial, every value, the recommended checkpoint; also after an outage."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.problem import OPTIMIZER, Problem
from tests.contract.product import Finished, Product, Sweep, digests, wait_until
from tests.contract.tracking import Records, assert_complete, kept, records

pytestmark = pytest.mark.ray

METRICS = ("forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "utility", "truth_ratio")


@pytest.fixture(scope="module")
def found(reference: Finished) -> Records:
    return records(reference.product.tracking_uri, "reference")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


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


# An outage ------------------------------------------------------------------------------------------------------------


@contextmanager
def mlflow_server(product: Product, port: int) -> Iterator[str]:
    """A tracking server on the loopback address."""
    folder = product.folder / "server"
    folder.mkdir()
    store = ("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts")
    command = [sys.executable, "-m", "mlflow", "server", *store, "--host", "127.0.0.1", "--port", str(port)]
    environment = {**product.environment, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--workers", "1"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/health"), process)
        yield url
    finally:
        process.terminate()
        process.wait()


def test_a_sweep_finishes_without_mlflow_and_resume_delivers_everything_once(
    problem: Problem, new_product: Callable[[str], Product], tmp_path: Path
) -> None:
    product, port = new_product("outage"), free_port()
    sweep = Sweep(product.folder / "outage")
    tracking = ("--tracking-uri", f"http://127.0.0.1:{port}", "--experiment", "outage")
    grid = ("--sampler", "grid", "--method", "ngdiff", "--lr", "0.1", "--lr", "0.3", *OPTIMIZER, "--epochs", "2")
    options = (*grid, *tracking, "--gpus-per-trial", "0", "--front-metrics", "0", "--out", sweep.out, "--json")
    done = product.run("pareto", *problem.options, *options)
    assert done.json["status"]["finished"] == 2
    tables = ("trials.csv", "history.csv", "candidates.csv")
    before = [(sweep.out / name).read_bytes() for name in tables]

    with mlflow_server(product, port) as url:
        resumed = product.run("resume", sweep.out, "--json")
        found = records(url, "outage")
        assert_complete(found, sweep, METRICS)
        row = next(row for row in sweep.candidates if row["checkpoint"])
        model = found.models[row["trial_id"], float(row["epoch"])]
        assert digests(found.download(model, tmp_path)) == digests(sweep.out / row["checkpoint"])

    assert resumed.json["trials"] == 2
    assert [(sweep.out / name).read_bytes() for name in tables] == before, "a finished trial ran again"
