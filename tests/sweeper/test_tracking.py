"""Tracking: what is in a sweep's ledger is in MLflow once, whatever happens to the server or the sweep.

Against real MLflow on SQLite.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sweeper.ledger import Ledger
from sweeper.tracking import Tracker, TrackingSummary, tracking_problem
from sweeper.tracking.runs import finite_metrics, run_name, trial_run
from sweeper.tracking.store import Store, plain_reason
from sweeper.tracking.uri import absolute_uri, known_uri, shown_uri

_numbers = count()


FIRST_SESSION = """
import os, sys, time
from pathlib import Path
from sweeper.ledger import Ledger
from sweeper.tracking import Tracker, tracking_problem
assert tracking_problem("sqlite:///mlflow.db") is None
assert "mlflow" not in sys.modules
begin = time.perf_counter()
tracker = Tracker(ledger=Ledger(Path("out")), sweep_id="0", uri="sqlite:///mlflow.db", experiment="e", sweep_name="s",
                  parent_params={}, parent_tags={}, artifact_root=Path("artifacts"))
assert time.perf_counter() - begin < 0.5
os.chdir("/")
assert tracker.close(timeout=100).pending == 0
"""


@pytest.fixture(scope="module")
def first_session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder where a tracker has run once with the default URI, and what its process printed."""
    folder = tmp_path_factory.mktemp("first")
    command = [sys.executable, "-c", FIRST_SESSION]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return folder, done


@pytest.fixture(scope="module")
def database(first_session: tuple[Path, object]) -> Path:
    """An MLflow database; setting one up takes seconds, so the tests share it and use an experiment each."""
    return first_session[0] / "mlflow.db"


@dataclass
class Session:
    """As much of a sweep's session as writes to the ledger and wakes the tracker."""

    ledger: Ledger
    tracker: Tracker

    def start(self, trial_id: str, **more: object) -> None:
        self.tracker.trial_started(trial_id, ROW | more)

    def report(self, trial_id: str, step: int, **metrics: object) -> None:
        self.ledger.add_report(trial_id, {"step": step, **metrics})
        self.ledger.write()
        self.tracker.wake()

    def end(self, trial_id: str, status: str = "finished", **outcome: object) -> None:
        self.ledger.add_trial({"trial_id": trial_id, **ROW, "status": status, "ended_at": time.time(), **outcome})
        self.ledger.write()
        self.tracker.wake()

    def run(self, trial_id: str, *, steps: int = 3) -> None:
        self.start(trial_id)
        for step in range(1, steps + 1):
            self.report(trial_id, step, forget_loss=step / 2)
        self.end(trial_id, forget_loss=steps / 2, utility=0.5)

    def close(self, timeout: float = 30.0) -> TrackingSummary:
        return self.tracker.close(timeout)


@dataclass
class Sweep:
    """One sweep's folder, its sessions, and what MLflow has of it."""

    folder: Path
    uri: str
    experiment: str
    client: Any
    sweep_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(self, **given: Any) -> Session:
        self.folder.mkdir(exist_ok=True)
        options = {
            "ledger": Ledger(self.folder),
            "sweep_id": self.sweep_id,
            "uri": self.uri,
            "experiment": self.experiment,
            "sweep_name": "my sweep",
            "parent_params": {"trials": 2},
            "parent_tags": {"method": "gdiff"},
            "artifact_root": self.folder / "artifacts",
        }
        options |= given
        return Session(options["ledger"], Tracker(**options))

    def runs(self) -> list[Any]:
        found = self.client.get_experiment_by_name(self.experiment)
        return [] if found is None else list(self.client.search_runs([found.experiment_id]))

    def parents(self) -> list[Any]:
        return [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]

    def trial(self, trial_id: str) -> Any:
        (run,) = [run for run in self.runs() if run.data.tags["trial_id"] == trial_id]
        return run

    def points(self, trial_id: str, metric: str = "forget_loss") -> list[tuple[int, float]]:
        history = self.client.get_metric_history(self.trial(trial_id).info.run_id, metric)
        return sorted((point.step, point.value) for point in history)


@pytest.fixture
def sweep(database: Path, tmp_path: Path) -> Sweep:
    from mlflow import MlflowClient

    uri = f"sqlite:///{database}"
    return Sweep(tmp_path / "out", uri, f"experiment {next(_numbers)}", MlflowClient(tracking_uri=uri))


@pytest.fixture
def dead_uri() -> str:
    """A loopback address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def hung_uri() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


ROW = {"method": "gdiff", "c": 0.4, "lr": 1e-4, "objective_beta": None, "spec_hash": "cafe", "auto_lr": "off"}
THREE = [(1, 0.5), (2, 1.0), (3, 1.5)]


def make_checkpoint(folder: Path) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 64)
    (folder / "tokenizer" / "vocab.json").write_text('{"a": 0}')
    return folder


def wait_until(condition: Callable[[], bool], *, patience: float = 20.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def noted(name: str, asked: list[str]) -> Callable[..., Any]:
    """A method of MLflow's client that notes the run it is called on."""
    from mlflow import MlflowClient

    method = getattr(MlflowClient, name)

    def call(client: Any, run_id: str, *args: Any, **given: Any) -> Any:
        asked.append(run_id)
        return method(client, run_id, *args, **given)

    return call


class TestWhatMlflowHolds:
    def test_a_trial_reads_back_with_its_params_metrics_tags_and_parent(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.run("00007")
        told = {"answer": "Nothing was forgotten: ...", "recommended_trial": "none"}
        session.tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.75}, tags=told)
        summary = session.close()

        (parent,) = sweep.parents()
        assert (parent.info.run_id, parent.info.run_name, parent.info.status) == (
            summary.run_id,
            "my sweep",
            "FINISHED",
        )
        assert parent.data.params == {"trials": "2"}
        assert parent.data.metrics == {"hypervolume": 0.75}
        assert told.items() <= parent.data.tags.items()
        child = sweep.trial("00007")
        assert child.info.run_name == "00007 gdiff c=0.4 lr=1e-4"
        assert child.info.status == "FINISHED"
        assert child.data.params == {"method": "gdiff", "c": "0.4", "lr": "0.0001", "auto_lr": "off"}
        expected = {"spec_hash": "cafe", "method": "gdiff", "auto_lr": "off", "status": "finished", "sweep": "my sweep"}
        assert {key: child.data.tags[key] for key in expected} == expected
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert sweep.points("00007") == THREE
        assert sweep.points("00007", "utility") == [(3, 0.5)]
        assert (summary.pending, summary.message) == (0, None)

    def test_the_runs_of_trials_on_the_frontier_are_tagged_and_untagged_when_they_have_left_it(
        self, sweep: Sweep
    ) -> None:
        session = sweep.open()
        for trial_id in ("00000", "00001", "00002"):
            session.run(trial_id)
        front = {"00000": {"2": "checkpoints/00000-epoch-2", "3": "checkpoints/00000"}, "00001": {"1": ""}}
        session.tracker.sweep_ended(status="finished", metrics={}, front=front)
        session.close()
        names = ("pareto", "pareto_epochs", "pareto_checkpoints")
        tags = {name: [sweep.trial(name).data.tags.get(tag) for tag in names] for name in ("00000", "00001", "00002")}
        assert tags == {
            "00000": ["true", "2, 3", "checkpoints/00000-epoch-2, checkpoints/00000"],
            "00001": ["true", "1", "none"],
            "00002": [None, None, None],
        }
        resumed = sweep.open()
        resumed.tracker.sweep_ended(status="finished", metrics={}, front={"00000": {"3": "checkpoints/00000"}})
        resumed.close()
        tags = {name: [sweep.trial(name).data.tags.get(tag) for tag in names] for name in ("00000", "00001", "00002")}
        assert tags == {
            "00000": ["true", "3", "checkpoints/00000"],
            "00001": ["false", "none", "none"],
            "00002": [None, None, None],
        }

    def test_a_running_trial_is_there_before_its_first_report_and_its_reports_before_its_end(
        self, sweep: Sweep
    ) -> None:
        session = sweep.open()
        session.start("00001")
        wait_until(lambda: len(sweep.runs()) == 2)
        assert sweep.trial("00001").info.status == "RUNNING"
        session.report("00001", 1, forget_loss=0.5)
        wait_until(lambda: sweep.points("00001") == [(1, 0.5)])
        session.end("00001")
        wait_until(lambda: sweep.trial("00001").info.status == "FINISHED")
        session.close()

    def test_the_times_are_the_ledgers(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.start("00001")
        session.report("00001", 1, forget_loss=1.0, reported_at=1.7e9)
        session.end("00001", utility=0.5, started_at=1.7e9 - 5, ended_at=1.7e9 + 5)
        session.close()
        run = sweep.trial("00001")
        times = [sweep.client.get_metric_history(run.info.run_id, name)[0].timestamp for name in run.data.metrics]
        assert dict(zip(run.data.metrics, times, strict=True)) == {
            "forget_loss": 1_700_000_000_000,
            "utility": 1_700_000_005_000,
        }
        assert run.info.end_time == 1_700_000_005_000

    def test_each_status_has_its_place_in_mlflow_and_the_exact_one_as_a_tag(self, sweep: Sweep) -> None:
        expected = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
        session = sweep.open()
        for status in expected:
            session.start(status)
            session.end(status, status, error="out of memory" if status == "failed" else None)
        session.close()
        assert {status: sweep.trial(status).info.status for status in expected} == expected
        assert {sweep.trial(status).data.tags["status"] for status in expected} == set(expected)
        assert sweep.trial("failed").data.tags["error"] == "out of memory"
        assert "error" not in sweep.trial("finished").data.tags

    def test_a_trial_whose_worker_never_started_is_there_all_the_same(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.end("00001", "failed", error="the worker died")
        session.close()
        run = sweep.trial("00001")
        assert (run.info.status, run.data.params["method"]) == ("FAILED", "gdiff")
        assert run.info.run_name == "00001 gdiff c=0.4 lr=1e-4"

    def test_metrics_that_are_not_finite_numbers_are_left_out(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.start("00001")
        session.report("00001", 1, forget_loss=1.0, verbmem=None, lr=float("nan"), c_t=float("inf"))
        session.report("00001", 2, retain_loss=float("nan"))
        session.end("00001", "diverged", forget_loss=float("-inf"))
        session.close()
        assert sweep.trial("00001").data.metrics == {"forget_loss": 1.0}

    def test_what_exceeds_mlflows_limits_is_fitted_to_them(self, sweep: Sweep) -> None:
        params = {f"p{number}": number for number in range(150)} | {"n" * 300: 1, "a//b|c": 2}
        session = sweep.open(parent_params=params, parent_tags={"note": "y" * 9000})
        session.start("00001", model_path="x" * 7000)
        for step in range(300):
            session.report("00001", step, **dict.fromkeys(("forget_loss", "retain_loss", "lr", "c_t"), step))
        session.end("00001", "failed", error="z" * 9000)
        assert session.close().pending == 0
        (parent,), run = sweep.parents(), sweep.trial("00001")
        assert len(parent.data.params) == 152
        assert (parent.data.params["n" * 250], parent.data.params["a__b_c"]) == ("1", "2")
        assert len(run.data.params["model_path"]) == 6000
        assert (len(parent.data.tags["note"]), len(run.data.tags["error"])) == (5000, 5000)
        for name in ("forget_loss", "retain_loss", "lr", "c_t"):
            assert sweep.points("00001", name) == [(step, float(step)) for step in range(300)]
        assert finite_metrics({"P(y|x)": 1.0}, ["P(y|x)"]) == {"P_y_x_": 1.0}

    def test_an_experiment_that_exists_keeps_its_artifact_location(self, sweep: Sweep, tmp_path: Path) -> None:
        location = (tmp_path / "elsewhere").as_uri()
        sweep.client.create_experiment(sweep.experiment, artifact_location=location)
        sweep.open().close()
        assert sweep.parents()[0].info.artifact_uri.startswith(location)

    @pytest.mark.parametrize(
        ("params", "name"),
        [
            ({"method": "npo", "c": 1.0, "lr": 5e-6}, "00001 npo c=1 lr=5e-6"),
            ({"method": "gdiff", "c": 0.05, "lr": 1.25e-4, "auto_lr": "on"}, "00001 gdiff c=0.05 lr=1.25e-4 auto"),
            ({"method": "npo", "c": "", "lr": "0.0001"}, "00001 npo lr=1e-4"),  # as a CSV row has them
            ({"method": "mgda", "c": None, "lr": 0.01}, "00001 mgda lr=0.01"),
            ({}, "00001"),
        ],
    )
    def test_the_run_name_tells_method_and_rates(self, params: dict[str, object], name: str) -> None:
        assert run_name("00001", params) == name

    def test_a_trial_has_the_same_parameters_as_it_begins_and_in_its_row(self, sweep: Sweep, tmp_path: Path) -> None:
        """Else a resumed sweep would say that they have changed."""
        row = ROW | {"seed": 3, "lr": 1 / 3, "c": 1e-7, "lora_rank": None, "gradient_checkpointing": True}
        Ledger(tmp_path).trials.append([row])
        (read,) = Ledger(tmp_path).trials.read()
        assert trial_run("1", read, sweep_name="s").params == trial_run("1", row, sweep_name="s").params


class TestArtifacts:
    def test_a_checkpoint_in_a_local_store_is_linked_and_mlflow_sees_it(self, sweep: Sweep, tmp_path: Path) -> None:
        import mlflow

        checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
        (sweep.folder / "items").mkdir()
        (sweep.folder / "items" / "00001.json").write_text("{}")
        session = sweep.open()
        session.end("00001", checkpoint="checkpoints/00001")
        session.close()

        run = sweep.trial("00001")
        assert run.info.artifact_uri.startswith((sweep.folder / "artifacts").as_uri())
        kept = sweep.folder / "artifacts" / run.info.run_id / "artifacts"
        for name in ("model.safetensors", "tokenizer/vocab.json"):
            assert (kept / "checkpoint" / name).stat().st_ino == (checkpoint / name).stat().st_ino
        listed = {item.path for item in sweep.client.list_artifacts(run.info.run_id)}
        assert listed == {"checkpoint", "00001.json"}
        listed = {item.path for item in sweep.client.list_artifacts(run.info.run_id, "checkpoint")}
        assert listed == {"checkpoint/model.safetensors", "checkpoint/tokenizer"}
        downloaded = mlflow.artifacts.download_artifacts(
            run_id=run.info.run_id, artifact_path="checkpoint", tracking_uri=sweep.uri, dst_path=str(tmp_path / "got")
        )
        assert Path(downloaded, "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()

    def test_a_checkpoint_on_another_file_system_is_copied(self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refuse)
        checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
        session = sweep.open()
        session.end("00001", checkpoint="checkpoints/00001")
        assert session.close().pending == 0
        kept = Path(sweep.folder, "artifacts", sweep.trial("00001").info.run_id, "artifacts", "checkpoint")
        assert (kept / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
        assert (kept / "model.safetensors").stat().st_ino != (checkpoint / "model.safetensors").stat().st_ino

    def test_tables_are_copied_so_that_a_resume_that_rewrites_them_updates_the_artifact(self, sweep: Sweep) -> None:
        sweep.folder.mkdir()
        table = sweep.folder / "report.html"
        (sweep.folder / "figures").mkdir()
        (sweep.folder / "figures" / "one.png").write_text("one")
        for text in ("one trial", "two trials"):
            table.write_text(text)
            session = sweep.open()
            artifacts = [table, sweep.folder / "figures"]
            session.tracker.sweep_ended(status="finished", metrics={}, artifacts=artifacts)
            assert session.close().pending == 0
            table.write_text("half written")
            (parent,) = sweep.parents()
            kept = sweep.folder / "artifacts" / parent.info.run_id / "artifacts"
            assert (kept / "report.html").read_text() == text
            assert (kept / "figures" / "one.png").read_text() == "one"

    def test_a_checkpoint_that_is_gone_holds_up_nothing_and_is_named(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.end("00001", checkpoint="checkpoints/00001")
        session.run("00002")
        summary = session.close()
        assert sweep.trial("00001").info.status == sweep.trial("00002").info.status == "FINISHED"
        assert summary.pending == 1
        assert str(sweep.folder / "checkpoints" / "00001") in str(summary.message)

    def test_artifacts_that_cannot_be_kept_leave_the_trial_and_wait(self, sweep: Sweep) -> None:
        make_checkpoint(sweep.folder / "checkpoints" / "00001")
        obstacle = sweep.folder / "artifacts"
        obstacle.write_text("not a folder")
        session = sweep.open()
        session.end("00001", checkpoint="checkpoints/00001", utility=0.5)
        summary = session.close()
        assert sweep.trial("00001").info.status == "FINISHED"
        assert summary.pending == 1
        assert "not a directory" in str(summary.message)
        obstacle.unlink()
        assert sweep.open().close().pending == 0
        (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
        assert kept.path == "checkpoint"
        assert sweep.points("00001", "utility") == [(0, 0.5)]

    def test_a_sweep_folder_that_was_moved_still_delivers_its_checkpoints(self, sweep: Sweep, dead_uri: str) -> None:
        make_checkpoint(sweep.folder / "checkpoints" / "00001")
        session = sweep.open(uri=dead_uri)
        session.end("00001", checkpoint="checkpoints/00001")
        session.close()
        sweep.folder = sweep.folder.rename(sweep.folder.with_name("moved"))
        assert sweep.open().close().pending == 0
        (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
        assert kept.path == "checkpoint"


class TestAServerThatFails:
    def test_a_dead_server_stops_nothing_and_what_waited_arrives_once(
        self, sweep: Sweep, dead_uri: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        begin = time.perf_counter()
        session = sweep.open(uri=dead_uri)
        session.run("00001", steps=1000)
        assert time.perf_counter() - begin < 2.0  # the ledger's thousand appends
        begin = time.perf_counter()
        summary = session.close(timeout=20)
        assert time.perf_counter() - begin < 10
        assert summary.run_id is None
        assert summary.pending == 1002  # the sweep, its trial, the reports
        assert summary.message == (
            f"MLflow at {dead_uri} could not be asked whether it has 1002 of the sweep's records (connection refused); "
            "they are in the sweep's folder, and resuming the sweep sends them"
        )
        assert len(caplog.records) == 1

        for _ in range(2):
            summary = sweep.open().close()
            assert (summary.pending, summary.message) == (0, None)
            assert sweep.points("00001") == [(step, step / 2) for step in range(1, 1001)]
            assert len(sweep.runs()) == 2

    def test_a_server_that_never_answers_does_not_hold_up_the_end(self, sweep: Sweep, hung_uri: str) -> None:
        session = sweep.open(uri=hung_uri)
        session.run("00001")
        begin = time.perf_counter()
        summary = session.close(timeout=1.0)
        assert time.perf_counter() - begin < 2.0
        assert summary.pending == 5
        assert "resuming the sweep sends them" in str(summary.message)

    def test_a_server_that_comes_back_gets_what_waited_without_a_resume(self, sweep: Sweep, tmp_path: Path) -> None:
        database = Path(sweep.uri.removeprefix("sqlite:///"))
        path = tmp_path / "late.db"
        path.write_text("this is no database")
        sweep.uri = f"sqlite:///{path}"
        session = sweep.open()
        session.run("00001")
        time.sleep(0.5)
        path.unlink()
        shutil.copy(database, path)
        assert session.close().pending == 0

    def test_a_deleted_experiment_is_named_with_its_remedy_and_loses_nothing(self, sweep: Sweep) -> None:
        experiment_id = sweep.client.create_experiment(sweep.experiment)
        sweep.client.delete_experiment(experiment_id)
        session = sweep.open()
        session.run("00001")
        summary = session.close()
        assert summary.pending == 5
        assert f"mlflow experiments restore --experiment-id {experiment_id}" in str(summary.message)
        sweep.client.restore_experiment(experiment_id)
        assert sweep.open().close().pending == 0
        assert sweep.points("00001") == THREE

    def test_a_deleted_sweep_run_is_named_with_its_remedy_by_the_resume(self, sweep: Sweep) -> None:
        run_id = str(sweep.open().close().run_id)
        sweep.client.delete_run(run_id)
        session = sweep.open()
        session.run("00001")
        assert f"mlflow runs restore --run-id {run_id}" in str(session.close().message)
        sweep.client.restore_run(run_id)
        assert sweep.open().close().pending == 0
        assert sweep.trial("00001").data.tags["mlflow.parentRunId"] == run_id

    def test_records_mlflow_refuses_hold_up_no_others_and_are_tried_again_by_the_next_session(
        self, sweep: Sweep
    ) -> None:
        session = sweep.open()
        session.start("00001")
        session.close()
        run_id = sweep.trial("00001").info.run_id
        sweep.client.delete_run(run_id)

        session = sweep.open()
        session.report("00001", 1, forget_loss=1.0)
        session.run("00002")
        summary = session.close()
        assert sweep.trial("00002").info.status == "FINISHED"
        assert summary.pending == 1
        assert "deleted" in str(summary.message)

        sweep.client.restore_run(run_id)
        assert sweep.open().close().pending == 0
        assert sweep.points("00001") == [(1, 1.0)]

    @pytest.mark.parametrize("name", ["create_run", "begin", "log_metrics", "end", "keep", "set_tags", "runs"])
    @pytest.mark.parametrize("arrives", [True, False], ids=["the answer was lost", "the request was lost"])
    def test_a_request_that_fails_is_made_again_and_has_its_effect_once(
        self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch, name: str, arrives: bool
    ) -> None:
        request, calls = getattr(Store, name), count()

        def fails_at_first(store: Store, *args: Any, **given: Any) -> Any:
            times = next(calls)
            result = request(store, *args, **given) if arrives or times > 1 else None
            if times <= 1:
                raise ConnectionError("reset by peer")
            return result

        monkeypatch.setattr("sweeper.tracking.tracker._LONGEST_PAUSE", 0.01)
        monkeypatch.setattr(Store, name, fails_at_first)
        make_checkpoint(sweep.folder / "checkpoints" / "00001")
        session = sweep.open()
        session.start("00001")
        for step, loss in THREE:
            session.report("00001", step, forget_loss=loss)
        session.end("00001", forget_loss=1.5, utility=0.5, checkpoint="checkpoints/00001")
        wait_until(lambda: session.tracker._delivery.pending() == 0)
        assert session.close().message is None
        assert len(sweep.runs()) == 2
        assert (sweep.points("00001"), sweep.points("00001", "utility")) == (THREE, [(3, 0.5)])


class TestResume:
    def test_a_resumed_sweep_goes_on_in_its_runs(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.run("00001")
        session.start("00002")
        session.report("00002", 1, forget_loss=1.0)
        session.report("00002", 2, forget_loss=2.0)
        session.tracker.sweep_ended(status="interrupted", metrics={"hypervolume": 0.1})
        first = session.close()
        assert sweep.parents()[0].info.status == "KILLED"
        run_ids = {run.info.run_id for run in sweep.runs()}

        Ledger(sweep.folder).mend({"00002": 1})
        session = sweep.open()
        session.start("00002")
        session.report("00002", 2, forget_loss=2.0)  # repeated from the saved state of step 1
        session.report("00002", 3, forget_loss=3.0)
        session.end("00002")
        session.tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.2})
        second = session.close()

        assert {run.info.run_id for run in sweep.runs()} == run_ids
        assert first.run_id == second.run_id
        assert sweep.points("00002") == [(1, 1.0), (2, 2.0), (3, 3.0)]
        assert sweep.parents()[0].info.status == "FINISHED"
        assert sweep.parents()[0].data.metrics == {"hypervolume": 0.2}

    def test_a_failed_trial_that_is_tried_again_runs_and_loses_its_error(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.end("00001", "failed", error="out of memory")
        session.close()
        Ledger(sweep.folder).trials.rewrite([])  # its row is taken out by hand
        session = sweep.open()
        session.start("00001")
        session.close()
        run = sweep.trial("00001")
        assert (run.info.status, run.data.tags["status"]) == ("RUNNING", "running")
        assert "error" not in run.data.tags
        session = sweep.open()
        session.run("00001")
        assert session.close().pending == 0
        assert sweep.trial("00001").info.status == "FINISHED"
        assert sweep.points("00001") == THREE

    def test_a_sweep_that_is_in_mlflow_is_not_sent_again(self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
        session = sweep.open()
        session.run("00001")
        session.tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.5})
        session.close()
        asked: list[str] = []
        for name in ("log_batch", "set_terminated", "get_metric_history", "create_run"):
            monkeypatch.setattr(f"mlflow.MlflowClient.{name}", noted(name, asked))
        session = sweep.open()
        session.tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.5})
        assert session.close().message is None
        assert sweep.trial("00001").info.run_id not in asked
        history = sweep.client.get_metric_history(sweep.parents()[0].info.run_id, "hypervolume")
        assert [point.value for point in history] == [0.5]

    def test_a_changed_parameter_of_the_sweep_is_kept_as_a_tag(self, sweep: Sweep) -> None:
        sweep.open().close()
        session = sweep.open(parent_params={"trials": 50, "gpus": 2})
        assert session.close().pending == 0
        (parent,) = sweep.parents()
        assert parent.data.params == {"trials": "2", "gpus": "2"}
        assert parent.data.tags["resumed.trials"] == "50"

    def test_tables_put_in_order_while_they_are_followed_are_sent_once(self, sweep: Sweep) -> None:
        session = sweep.open()
        for trial_id in ("00002", "00001"):
            session.run(trial_id)
            wait_until(lambda trial_id=trial_id: len(sweep.runs()) > (trial_id == "00001") + 1)
        session.ledger.sort()
        session.run("00003")
        session.ledger.sort()
        assert session.close().pending == 0
        assert [sweep.points(trial_id) for trial_id in ("00001", "00002", "00003")] == [THREE] * 3

    def test_a_line_cut_short_by_a_crash_is_dropped_and_the_rest_is_read(self, sweep: Sweep, dead_uri: str) -> None:
        session = sweep.open(uri=dead_uri)
        session.run("00001")
        session.close()
        for name in ("history.csv", "trials.csv"):
            with (sweep.folder / name).open("ab") as table:
                table.write(b"00001,17")
        Ledger(sweep.folder).mend({})
        session = sweep.open()
        session.run("00002")
        assert session.close().pending == 0
        assert sweep.points("00001") == sweep.points("00002")

    def test_what_a_trial_reported_during_an_outage_waits_until_it_goes_on(self, sweep: Sweep, dead_uri: str) -> None:
        """Its parameters are not in the ledger before it ends, and a run without them would say nothing."""
        session = sweep.open(uri=dead_uri)
        session.start("00001")
        session.report("00001", 1, forget_loss=0.5)
        session.report("00001", 2, forget_loss=1.0)
        session.close()
        Ledger(sweep.folder).mend({"00001": 2})
        session = sweep.open()
        session.run("00002")
        wait_until(lambda: len(sweep.runs()) == 2)
        session.start("00001")
        session.report("00001", 3, forget_loss=1.5)
        session.end("00001")
        assert session.close().pending == 0
        assert sweep.points("00001") == sweep.points("00002") == THREE

    def test_another_experiment_gets_the_whole_sweep(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.run("00001")
        session.close()
        sweep.experiment += " again"
        assert sweep.open().close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001") == THREE

    def test_a_store_that_lost_its_runs_gets_the_whole_sweep(self, sweep: Sweep) -> None:
        session = sweep.open()
        session.run("00001")
        session.close()
        with sqlite3.connect(sweep.uri.removeprefix("sqlite:///")) as connection:
            connection.execute(
                "delete from runs where experiment_id = (select experiment_id from experiments where name = ?)",
                [sweep.experiment],
            )
        assert sweep.runs() == []
        assert sweep.open().close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001") == THREE

    @pytest.mark.parametrize("attempt", range(2))
    def test_a_killed_sweep_resumes_without_doubles(self, sweep: Sweep, tmp_path: Path, attempt: int) -> None:
        """Killed twice: while it sends, at a moment that is another one in every attempt."""
        script = f"""
import time
from pathlib import Path
from sweeper.ledger import Ledger
from sweeper.tracking import Tracker
ledger = Ledger(Path({str(sweep.folder)!r}))
first = max((int(row["step"]) for row in ledger.history.read()), default=0) // 2
ledger.mend({{"00001": first}})
tracker = Tracker(ledger=ledger, sweep_id={sweep.sweep_id!r}, uri={sweep.uri!r}, experiment={sweep.experiment!r},
                  sweep_name="my sweep", parent_params={{"trials": 2}}, parent_tags={{}},
                  artifact_root=Path({str(tmp_path)!r}))
tracker.trial_started("00001", {ROW!r})
while not tracker._delivery.sweep_run_id:
    time.sleep(0.001)
print("begun", flush=True)
for step in range(first + 1, 2001):
    ledger.add_report("00001", {{"step": step, "forget_loss": float(step)}})
    ledger.write()
    tracker.wake()
    time.sleep(0.001)
time.sleep(60)
"""
        sweep.folder.mkdir()
        moments = random.Random(attempt)
        for _ in range(2):
            with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                time.sleep(moments.uniform(0.6, 1.5))
                process.send_signal(signal.SIGKILL)
        sent = sweep.points("00001")
        assert sent
        ledger = Ledger(sweep.folder)
        ledger.mend({})
        session = sweep.open()
        session.start("00001")
        for step in range(1, 2001):
            session.report("00001", step, forget_loss=float(step))
        session.end("00001")
        assert session.close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001") == [(step, float(step)) for step in range(1, 2001)]
        assert sent == sweep.points("00001")[: len(sent)]

    def test_a_sweep_killed_while_mlflow_sets_up_its_database_leaves_none_half_made(self, tmp_path: Path) -> None:
        script = """
import os, signal, sqlite3, time
from pathlib import Path
from sweeper.ledger import Ledger
from sweeper.tracking import Tracker
Tracker(ledger=Ledger(Path("out")), sweep_id="0", uri="sqlite:///mlflow.db", experiment="e", sweep_name="s",
        parent_params={}, parent_tags={}, artifact_root=Path("artifacts"))
while True:
    for path in Path().rglob("*.db"):
        names = {row[0] for row in sqlite3.connect(path).execute("select name from sqlite_master")}
        if "experiments" in names:
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.001)
"""
        command = [sys.executable, "-c", script]
        killed = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


class TestQuietAndLight:
    def test_making_a_tracker_neither_imports_mlflow_nor_waits_nor_prints(
        self, first_session: tuple[Path, subprocess.CompletedProcess[str]]
    ) -> None:
        folder, done = first_session
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert sorted(path.name for path in folder.iterdir()) == ["mlflow.db", "out"]
        assert list((folder / "out").iterdir()) == []

    def test_the_users_request_limits_are_kept(self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
        monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
        sweep.open().close()
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
        assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"


class TestTrackingProblem:
    @pytest.mark.parametrize(
        "uri",
        [
            "sqlite:///mlflow.db",
            "sqlite:///{tmp}/new/folder/mlflow.db",
            "http://localhost:5000",
            "https://user:secret@tracking.example.com/mlflow",
            "databricks",
        ],
    )
    def test_a_uri_that_can_work_has_none(self, uri: str, tmp_path: Path) -> None:
        assert tracking_problem(uri.format(tmp=tmp_path)) is None

    @pytest.mark.parametrize(
        ("uri", "said"),
        [
            ("ftp://host/x", "unknown scheme 'ftp'"),
            ("http://", "names no host"),
            ("http://host:99999", "cannot be read"),
            ("./mlruns", "expected sqlite:///mlflow.db"),
            ("file:///tmp/mlruns", "expected sqlite:///mlflow.db"),
            ("sqlite://", "names no database file"),
            ("sqlite:///:memory:", "names no database file"),
            ("sqlite:///{tmp}", "is a folder"),
            ("sqlite:///{tmp}/text", "is not a SQLite database"),
            ("sqlite:///{tmp}/text/mlflow.db", "text is not a folder"),
            ("mysql://user:secret@host/db", "needs the Python package MySQLdb"),
            ("postgresql+nodriver://user:secret@host/db", "needs the Python package nodriver"),
        ],
    )
    def test_a_uri_that_cannot_work_is_explained_without_its_password(
        self, uri: str, said: str, tmp_path: Path
    ) -> None:
        (tmp_path / "text").write_text("no database, but a text")
        problem = tracking_problem(uri.format(tmp=tmp_path))
        assert problem is not None
        assert said in problem
        assert "secret" not in problem

    @pytest.mark.parametrize(
        ("uri", "shown"),
        [
            ("https://user:secret@host:5000/mlflow", "https://user@host:5000/mlflow"),
            ("https://user:se@cret@host/mlflow", "https://user@host/mlflow"),
            ("https://user:sec/ret@host/mlflow", "https://user@host/mlflow"),
            ("postgresql://host/db?user=ann&password=secret", "postgresql://host/db?user=ann&password=***"),
            ("--tracking-uri=http://user:secret@host", "--tracking-uri=http://user@host"),
            ("sqlite:///a@b.db", "sqlite:///a@b.db"),
            ("http://host:5000/mlflow/@me", "http://host:5000/mlflow/@me"),
            ("http://[::1]:5000/@me", "http://[::1]:5000/@me"),
            ("npo+ngdiff", "npo+ngdiff"),
        ],
    )
    def test_a_password_is_never_shown_and_all_else_is(self, uri: str, shown: str) -> None:
        assert shown_uri(uri) == shown

    def test_an_error_of_mlflows_is_told_without_the_password(self) -> None:
        error = RuntimeError("API request to http://ann:s3cret@host/api failed with code 500")
        assert plain_reason(error) == "API request to http://ann@host/api failed with code 500"

    def test_the_password_comes_back_from_the_environment_where_the_address_is_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = "http://ann:s3cret@host/mlflow"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", whole)
        assert known_uri(shown_uri(whole)) == whole
        assert known_uri("http://ann@another/mlflow") == "http://ann@another/mlflow"
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        assert known_uri(shown_uri(whole)) == shown_uri(whole)

    def test_a_relative_database_is_the_same_file_from_any_folder(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert absolute_uri("sqlite:///mlflow.db") == f"sqlite:///{tmp_path}/mlflow.db"
        assert absolute_uri("http://localhost:5000") == "http://localhost:5000"
