"""Tracking: what a sweep reports is in MLflow once, whatever happens to the server or the sweep.

Against real MLflow on SQLite.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sweeper.tracking import Tracker, tracking_problem
from sweeper.tracking.records import run_name
from sweeper.tracking.uri import absolute_uri, shown_uri

_numbers = count()


FIRST_SESSION = """
import os, sys, time
from pathlib import Path
from sweeper.tracking import Tracker, tracking_problem
assert tracking_problem("sqlite:///mlflow.db") is None
assert "mlflow" not in sys.modules
begin = time.perf_counter()
tracker = Tracker(uri="sqlite:///mlflow.db", experiment="e", sweep_name="s", spool=Path("spool"), parent_params={},
                  parent_tags={}, artifact_root=Path("artifacts"))
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
class Sweep:
    """One sweep's folder and its trackers."""

    folder: Path
    uri: str
    experiment: str
    client: Any

    @property
    def spool(self) -> Path:
        return self.folder / "tracking"

    def tracker(self, **given: Any) -> Tracker:
        options = {
            "uri": self.uri,
            "experiment": self.experiment,
            "sweep_name": "my sweep",
            "spool": self.spool,
            "parent_params": {"trials": 2},
            "parent_tags": {"method": "gdiff"},
            "artifact_root": self.folder / "artifacts",
        }
        return Tracker(**{**options, **given})

    def runs(self) -> list[Any]:
        found = self.client.get_experiment_by_name(self.experiment)
        return [] if found is None else list(self.client.search_runs([found.experiment_id]))

    def parents(self) -> list[Any]:
        return [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]

    def trial(self, trial_id: str) -> Any:
        (run,) = [run for run in self.runs() if run.data.tags["trial_id"] == trial_id]
        return run

    def points(self, trial_id: str, metric: str) -> list[tuple[int, float]]:
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


PARAMS = {"method": "gdiff", "c": 0.4, "lr": 1e-4, "beta": None, "alpha": ""}


def start(tracker: Tracker, trial_id: str) -> None:
    tracker.trial_started(trial_id, params=PARAMS, tags={"spec_hash": "cafe", "method": "gdiff", "auto_lr": "off"})


def report_and_end(tracker: Tracker, trial_id: str, *, steps: int = 3) -> None:
    start(tracker, trial_id)
    for step in range(1, steps + 1):
        tracker.trial_report(trial_id, step=step, metrics={"forget_loss": step / 2})
    tracker.trial_ended(trial_id, status="finished", metrics={"forget_loss": steps / 2, "utility": 0.5})


def make_checkpoint(folder: Path) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 64)
    (folder / "tokenizer" / "vocab.json").write_text('{"a": 0}')
    return folder


class TestWhatMlflowHolds:
    def test_a_trial_reads_back_with_its_params_metrics_tags_and_parent(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        report_and_end(tracker, "00007")
        tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.75})
        summary = tracker.close()

        (parent,) = sweep.parents()
        assert (parent.info.run_id, parent.info.run_name, parent.info.status) == (
            summary.run_id,
            "my sweep",
            "FINISHED",
        )
        assert parent.data.params == {"trials": "2"}
        assert parent.data.metrics == {"hypervolume": 0.75}
        child = sweep.trial("00007")
        assert child.info.run_name == "00007 gdiff c=0.4 lr=1e-4"
        assert child.info.status == "FINISHED"
        assert child.data.params == {"method": "gdiff", "c": "0.4", "lr": "0.0001"}
        expected = {"spec_hash": "cafe", "method": "gdiff", "auto_lr": "off", "status": "finished", "sweep": "my sweep"}
        assert {key: child.data.tags[key] for key in expected} == expected
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert sweep.points("00007", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]
        assert sweep.points("00007", "utility") == [(3, 0.5)]
        assert (summary.pending, summary.message) == (0, None)

    def test_each_status_has_its_place_in_mlflow_and_the_exact_one_as_a_tag(self, sweep: Sweep) -> None:
        expected = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
        tracker = sweep.tracker()
        for status in expected:
            start(tracker, status)
            tracker.trial_ended(
                status, status=status, metrics={}, error="out of memory" if status == "failed" else None
            )
        tracker.close()
        assert {status: sweep.trial(status).info.status for status in expected} == expected
        assert {sweep.trial(status).data.tags["status"] for status in expected} == set(expected)
        assert sweep.trial("failed").data.tags["error"] == "out of memory"
        assert "error" not in sweep.trial("finished").data.tags

    def test_metrics_that_are_not_finite_numbers_are_left_out(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_report("00001", step=1, metrics={"a": 1.0, "b": None, "c": float("nan"), "d": float("inf")})
        tracker.trial_report("00001", step=2, metrics={"c": float("nan")})
        tracker.trial_ended("00001", status="diverged", metrics={"a": float("-inf")})
        tracker.close()
        assert sweep.trial("00001").data.metrics == {"a": 1.0}

    def test_what_exceeds_mlflows_limits_is_fitted_to_them(self, sweep: Sweep) -> None:
        params = {f"p{number}": number for number in range(150)} | {"long": "x" * 7000, "n" * 300: 1, "a//b|c": 2}
        tracker = sweep.tracker()
        tracker.trial_started("00001", params=params, tags={"note": "y" * 9000})
        for step in range(300):
            tracker.trial_report("00001", step=step, metrics={f"m{number}": step for number in range(5)})
        tracker.trial_ended("00001", status="failed", metrics={"P(y|x)": 1.0}, error="z" * 9000)
        assert tracker.close().pending == 0
        run = sweep.trial("00001")
        assert len(run.data.params) == 153
        assert (len(run.data.params["long"]), run.data.params["n" * 250], run.data.params["a__b_c"]) == (6000, "1", "2")
        assert (len(run.data.tags["note"]), len(run.data.tags["error"])) == (5000, 5000)
        assert run.data.metrics["P_y_x_"] == 1.0
        assert all(len(sweep.points("00001", f"m{number}")) == 300 for number in range(5))

    def test_an_experiment_that_exists_keeps_its_artifact_location(self, sweep: Sweep, tmp_path: Path) -> None:
        location = (tmp_path / "elsewhere").as_uri()
        sweep.client.create_experiment(sweep.experiment, artifact_location=location)
        sweep.tracker().close()
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


class TestArtifacts:
    def test_a_checkpoint_in_a_local_store_is_linked_and_mlflow_sees_it(self, sweep: Sweep, tmp_path: Path) -> None:
        import mlflow

        checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_ended("00001", status="finished", metrics={}, checkpoint=checkpoint)
        tracker.close()

        run = sweep.trial("00001")
        assert run.info.artifact_uri.startswith((sweep.folder / "artifacts").as_uri())
        kept = sweep.folder / "artifacts" / run.info.run_id / "artifacts" / "checkpoint"
        for name in ("model.safetensors", "tokenizer/vocab.json"):
            assert (kept / name).stat().st_ino == (checkpoint / name).stat().st_ino
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
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_ended("00001", status="finished", metrics={}, checkpoint=checkpoint)
        assert tracker.close().pending == 0
        kept = Path(sweep.folder, "artifacts", sweep.trial("00001").info.run_id, "artifacts", "checkpoint")
        assert (kept / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
        assert (kept / "model.safetensors").stat().st_ino != (checkpoint / "model.safetensors").stat().st_ino

    def test_tables_are_copied_so_that_a_resume_that_rewrites_them_updates_the_artifact(self, sweep: Sweep) -> None:
        sweep.folder.mkdir()
        table = sweep.folder / "trials.csv"
        for text in ("one trial", "two trials"):
            table.write_text(text)
            tracker = sweep.tracker()
            tracker.sweep_ended(status="finished", metrics={}, artifacts=[table])
            tracker.close()
            table.write_text("half written")
            (parent,) = sweep.parents()
            kept = sweep.folder / "artifacts" / parent.info.run_id / "artifacts" / "trials.csv"
            assert kept.read_text() == text

    def test_a_checkpoint_that_is_gone_holds_up_nothing_and_is_named(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_ended("00001", status="finished", metrics={}, checkpoint=sweep.folder / "checkpoints" / "00001")
        report_and_end(tracker, "00002")
        summary = tracker.close()
        assert sweep.trial("00001").info.status == sweep.trial("00002").info.status == "FINISHED"
        assert summary.pending == 1
        assert str(sweep.folder / "checkpoints" / "00001") in str(summary.message)

    def test_artifacts_that_cannot_be_kept_leave_the_trial_and_wait(self, sweep: Sweep) -> None:
        checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
        obstacle = sweep.folder / "artifacts"
        obstacle.write_text("not a folder")
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_ended("00001", status="finished", metrics={"utility": 0.5}, checkpoint=checkpoint)
        summary = tracker.close()
        assert sweep.trial("00001").info.status == "FINISHED"
        assert summary.pending == 1
        assert "not a directory" in str(summary.message)
        obstacle.unlink()
        assert sweep.tracker().close().pending == 0
        (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
        assert kept.path == "checkpoint"

    def test_a_sweep_folder_that_was_moved_still_delivers_its_checkpoints(self, sweep: Sweep, dead_uri: str) -> None:
        checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
        tracker = sweep.tracker(uri=dead_uri)
        start(tracker, "00001")
        tracker.trial_ended("00001", status="finished", metrics={}, checkpoint=checkpoint)
        tracker.close()
        sweep.folder = sweep.folder.rename(sweep.folder.with_name("moved"))
        assert sweep.tracker().close().pending == 0
        (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
        assert kept.path == "checkpoint"


class TestAServerThatFails:
    def test_a_dead_server_stops_nothing_and_what_waited_arrives_once(
        self, sweep: Sweep, dead_uri: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        begin = time.perf_counter()
        tracker = sweep.tracker(uri=dead_uri)
        start(tracker, "00001")
        for step in range(1, 1001):
            tracker.trial_report("00001", step=step, metrics={"forget_loss": float(step)})
        tracker.trial_ended("00001", status="finished", metrics={})
        assert time.perf_counter() - begin < 0.5
        summary = tracker.close(timeout=20)
        assert time.perf_counter() - begin < 10
        assert (summary.delivered, summary.run_id) == (0, None)
        assert summary.pending == 1003  # two starts, the reports, an end
        assert summary.message == (
            f"MLflow at {dead_uri} does not have 1003 of the sweep's records (connection refused); "
            f"they wait in {sweep.spool} and are sent when the sweep is resumed"
        )
        assert len(caplog.records) == 1

        for _ in range(2):
            summary = sweep.tracker().close()
            assert (summary.pending, summary.message) == (0, None)
            assert sweep.points("00001", "forget_loss") == [(step, float(step)) for step in range(1, 1001)]
            assert len(sweep.runs()) == 2

    def test_a_server_that_never_answers_does_not_hold_up_the_end(self, sweep: Sweep, hung_uri: str) -> None:
        tracker = sweep.tracker(uri=hung_uri)
        report_and_end(tracker, "00001")
        begin = time.perf_counter()
        summary = tracker.close(timeout=1.0)
        assert time.perf_counter() - begin < 2.0
        assert summary.pending == 7
        assert str(sweep.spool) in str(summary.message)

    def test_a_server_that_comes_back_gets_what_waited_without_a_resume(self, sweep: Sweep, tmp_path: Path) -> None:
        database = Path(sweep.uri.removeprefix("sqlite:///"))
        path = tmp_path / "late.db"
        path.write_text("this is no database")
        sweep.uri = f"sqlite:///{path}"
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        time.sleep(0.5)
        path.unlink()
        shutil.copy(database, path)
        summary = tracker.close()
        assert (summary.pending, summary.delivered) == (0, 7)

    def test_a_deleted_experiment_is_named_with_its_remedy_and_loses_nothing(self, sweep: Sweep) -> None:
        experiment_id = sweep.client.create_experiment(sweep.experiment)
        sweep.client.delete_experiment(experiment_id)
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        summary = tracker.close()
        assert summary.pending == 7
        assert f"mlflow experiments restore --experiment-id {experiment_id}" in str(summary.message)
        sweep.client.restore_experiment(experiment_id)
        assert sweep.tracker().close().pending == 0
        assert sweep.points("00001", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]

    def test_a_deleted_sweep_run_is_named_with_its_remedy_by_the_resume(self, sweep: Sweep) -> None:
        run_id = str(sweep.tracker().close().run_id)
        sweep.client.delete_run(run_id)
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        assert f"mlflow runs restore --run-id {run_id}" in str(tracker.close().message)
        sweep.client.restore_run(run_id)
        assert sweep.tracker().close().pending == 0
        assert sweep.trial("00001").data.tags["mlflow.parentRunId"] == run_id

    def test_records_mlflow_refuses_hold_up_no_others_and_are_tried_again_by_the_next_session(
        self, sweep: Sweep
    ) -> None:
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.close()
        run_id = sweep.trial("00001").info.run_id
        sweep.client.delete_run(run_id)

        tracker = sweep.tracker()
        tracker.trial_report("00001", step=1, metrics={"forget_loss": 1.0})
        report_and_end(tracker, "00002")
        summary = tracker.close()
        assert sweep.trial("00002").info.status == "FINISHED"
        assert summary.pending == 1
        assert "deleted" in str(summary.message)

        sweep.client.restore_run(run_id)
        assert sweep.tracker().close().pending == 0
        assert sweep.points("00001", "forget_loss") == [(1, 1.0)]

    def test_a_spool_that_cannot_be_written_raises_nothing_and_is_named(self, sweep: Sweep, tmp_path: Path) -> None:
        obstacle = tmp_path / "file"
        obstacle.write_text("not a folder")
        tracker = sweep.tracker(spool=obstacle / "tracking")
        report_and_end(tracker, "00001")
        assert not tracker.has_ended("00001")
        assert (
            str(tracker.close().message)
            == f"7 records for MLflow are lost: they could not be written to {obstacle}/tracking"
        )


class TestResume:
    def test_a_resumed_sweep_goes_on_in_its_runs(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        start(tracker, "00002")
        tracker.trial_report("00002", step=1, metrics={"forget_loss": 1.0})
        tracker.trial_report("00002", step=2, metrics={"forget_loss": 2.0})
        tracker.sweep_ended(status="interrupted", metrics={"hypervolume": 0.1})
        first = tracker.close()
        assert sweep.parents()[0].info.status == "KILLED"
        run_ids = {run.info.run_id for run in sweep.runs()}

        tracker = sweep.tracker()
        assert tracker.has_ended("00001")
        assert not tracker.has_ended("00002")
        start(tracker, "00002")
        tracker.trial_report("00002", step=2, metrics={"forget_loss": 2.0})  # repeated from the checkpoint at step 1
        tracker.trial_report("00002", step=3, metrics={"forget_loss": 3.0})
        tracker.trial_ended("00002", status="finished", metrics={})
        tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.2})
        second = tracker.close()

        assert {run.info.run_id for run in sweep.runs()} == run_ids
        assert first.run_id == second.run_id
        assert sweep.points("00002", "forget_loss") == [(1, 1.0), (2, 2.0), (3, 3.0)]
        assert sweep.parents()[0].info.status == "FINISHED"
        assert sweep.parents()[0].data.metrics == {"hypervolume": 0.2}

    def test_a_failed_trial_that_is_tried_again_runs_and_loses_its_error(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_ended("00001", status="failed", metrics={}, error="out of memory")
        tracker.close()
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.close()
        run = sweep.trial("00001")
        assert (run.info.status, run.data.tags["status"]) == ("RUNNING", "running")
        assert "error" not in run.data.tags

    def test_records_sent_again_from_the_tables_are_not_logged_twice(self, sweep: Sweep) -> None:
        for _ in range(2):
            tracker = sweep.tracker()
            report_and_end(tracker, "00001")
            tracker.close()
        assert sweep.points("00001", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]
        assert sweep.points("00001", "utility") == [(3, 0.5)]

    def test_a_changed_parameter_of_the_sweep_is_kept_as_a_tag(self, sweep: Sweep) -> None:
        sweep.tracker().close()
        tracker = sweep.tracker(parent_params={"trials": 50, "gpus": 2})
        assert tracker.close().pending == 0
        (parent,) = sweep.parents()
        assert parent.data.params == {"trials": "2", "gpus": "2"}
        assert parent.data.tags["resumed.trials"] == "50"

    def test_a_crash_before_progress_was_saved_doubles_neither_runs_nor_points(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        tracker.close()
        (progress,) = sweep.spool.glob("delivered-*.json")
        progress.unlink()
        assert sweep.tracker().close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]

    def test_a_line_cut_short_by_a_crash_is_dropped_and_the_rest_is_read(self, sweep: Sweep, dead_uri: str) -> None:
        tracker = sweep.tracker(uri=dead_uri)
        report_and_end(tracker, "00001")
        tracker.close()
        with (sweep.spool / "journal.jsonl").open("ab") as journal:
            journal.write(b'{"kind": "metrics", "trial": "00001", "at": 17')
        tracker = sweep.tracker()
        report_and_end(tracker, "00002")
        assert tracker.close().pending == 0
        assert sweep.points("00001", "forget_loss") == sweep.points("00002", "forget_loss")

    def test_another_experiment_gets_the_whole_sweep(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        tracker.close()
        sweep.experiment += " again"
        assert sweep.tracker().close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]

    def test_a_store_that_lost_its_runs_gets_the_whole_sweep(self, sweep: Sweep) -> None:
        tracker = sweep.tracker()
        report_and_end(tracker, "00001")
        tracker.close()
        with sqlite3.connect(sweep.uri.removeprefix("sqlite:///")) as connection:
            connection.execute(
                "delete from runs where experiment_id = (select experiment_id from experiments where name = ?)",
                [sweep.experiment],
            )
        assert sweep.runs() == []
        assert sweep.tracker().close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001", "forget_loss") == [(1, 0.5), (2, 1.0), (3, 1.5)]

    def test_a_killed_sweep_resumes_without_doubles(self, sweep: Sweep, tmp_path: Path) -> None:
        script = f"""
import os, signal, time
from pathlib import Path
from sweeper.tracking import Tracker
spool = Path({str(sweep.spool)!r})
tracker = Tracker(uri={sweep.uri!r}, experiment={sweep.experiment!r}, sweep_name="my sweep", spool=spool,
                  parent_params={{"trials": 2}}, parent_tags={{}}, artifact_root=Path({str(tmp_path)!r}))
tracker.trial_started("00001", params={{}}, tags={{}})
for step in range(1, 2001):
    tracker.trial_report("00001", step=step, metrics={{"forget_loss": float(step)}})
    if step == 1000:
        while not list(spool.glob("delivered-*.json")):
            time.sleep(0.005)
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""
        killed = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
        assert killed.returncode == -signal.SIGKILL
        tracker = sweep.tracker()
        start(tracker, "00001")
        tracker.trial_report("00001", step=2000, metrics={"forget_loss": 2000.0})
        tracker.trial_ended("00001", status="finished", metrics={})
        assert tracker.close().pending == 0
        assert len(sweep.runs()) == 2
        assert sweep.points("00001", "forget_loss") == [(step, float(step)) for step in range(1, 2001)]

    def test_a_sweep_killed_while_mlflow_sets_up_its_database_leaves_none_half_made(self, tmp_path: Path) -> None:
        script = """
import os, signal, sqlite3, time
from pathlib import Path
from sweeper.tracking import Tracker
Tracker(uri="sqlite:///mlflow.db", experiment="e", sweep_name="s", spool=Path("spool"), parent_params={},
        parent_tags={}, artifact_root=Path("artifacts"))
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
        assert [path.name for path in tmp_path.iterdir()] == ["spool"]


class TestQuietAndLight:
    def test_making_a_tracker_neither_imports_mlflow_nor_waits_nor_prints(
        self, first_session: tuple[Path, subprocess.CompletedProcess[str]]
    ) -> None:
        folder, done = first_session
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert sorted(path.name for path in folder.iterdir()) == ["mlflow.db", "spool"]

    def test_the_users_request_limits_are_kept(self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
        monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
        sweep.tracker().close()
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

    def test_a_password_is_never_shown(self) -> None:
        assert shown_uri("https://user:secret@host:5000/mlflow") == "https://user@host:5000/mlflow"
        assert shown_uri("sqlite:///a@b.db") == "sqlite:///a@b.db"

    def test_a_relative_database_is_the_same_file_from_any_folder(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert absolute_uri("sqlite:///mlflow.db") == f"sqlite:///{tmp_path}/mlflow.db"
        assert absolute_uri("http://localhost:5000") == "http://localhost:5000"
