"""A sweep that was stopped, killed or moved to another store is in MLflow exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from sweeper.store.events import TrialStarted
from tests.conftest import disk_full_after
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import ENVIRONMENT, THREE, Sweep


def test_a_resumed_sweep_continues_its_runs_and_a_failed_trial_loses_its_error(sweep: Sweep) -> None:
    session = sweep.open()
    session.run("00001")
    session.start("00002")
    for step in (1, 2):
        session.report("00002", step, forget_loss=step / 2)
    session.start("00003")
    session.end("00003", "failed", error="out of memory")
    first = session.finish("interrupted", metrics={"hypervolume": 0.1})
    assert (first.pending, sweep.parent.info.status) == (0, "KILLED")
    run_ids = {run.info.run_id for run in sweep.runs()}

    session = sweep.open(params={"trials": 50, "gpus": 2})
    session.requeue("00002", 1)
    session.start("00002")
    for step in (2, 3):  # step 2 is repeated from the saved state of step 1
        session.report("00002", step, forget_loss=step / 2)
    session.end("00002")
    session.requeue("00003")
    session.start("00003")
    second = session.finish(metrics={"hypervolume": 0.2})

    assert {run.info.run_id for run in sweep.runs()} == run_ids
    assert first.run_id == second.run_id
    assert sweep.points("00002") == THREE
    again = sweep.trial("00003")
    assert (again.info.status, again.data.tags["status"], again.data.tags.get("error")) == ("RUNNING", "running", None)
    parent = sweep.parent
    assert (parent.info.status, parent.data.metrics) == ("FINISHED", {"hypervolume": 0.2})
    assert (parent.data.params, parent.data.tags["resumed.trials"]) == ({"trials": "2", "gpus": "2"}, "50")


def test_a_sweep_that_is_in_mlflow_is_not_sent_again(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    session = sweep.open()
    session.start("00001", seed=3, lr=1 / 3, c=1e-7, lora_rank=None, gradient_checkpointing=True)
    session.run("00001")
    session.finish(metrics={"hypervolume": 0.5})
    spies = []
    for name in ("log_batch", "set_terminated", "get_metric_history", "create_run"):
        method = getattr(MlflowClient, name)
        spies.append(create_autospec(method, side_effect=method))
        monkeypatch.setattr(MlflowClient, name, spies[-1])
    assert sweep.open().finish(metrics={"hypervolume": 0.5}).message == ""
    assert sweep.trial("00001").info.run_id not in [call.args[1] for spy in spies for call in spy.call_args_list]
    history = sweep.client.get_metric_history(sweep.parent.info.run_id, "hypervolume")
    assert [point.value for point in history] == [0.5]


def test_an_event_that_waits_for_the_disk_is_not_sent_before_it_is_written(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    wait_until(lambda: len(sweep.runs()) == 2)
    with disk_full_after(session.log.path.stat().st_size):
        session.report("00001", 1, forget_loss=0.5)
    session.tracker.apply(TrialStarted("00001"), session.log.state)
    time.sleep(0.5)
    assert sweep.points("00001") == []
    session.log.flush()
    assert session.close().pending == 0
    assert sweep.points("00001") == [(1, 0.5)]


@pytest.mark.faults
def test_a_killed_sweep_resumes_without_doubles(sweep: Sweep) -> None:
    """The process is killed twice, at different moments, while it sends records."""
    script = f"""
import time
from pathlib import Path
from tests.sweeper.followers.mlflow.conftest import open_session
session = open_session(Path({str(sweep.folder)!r}), {sweep.uri!r}, {sweep.experiment!r}, id={sweep.id!r})
first = 0
if trial := session.log.state.trials.get("00001"):
    first = max(0, trial.last_step) // 2
    session.requeue("00001", first or -1)
session.start("00001")
while not session.tracker._delivery.sweep_run_id:
    time.sleep(0.001)
print("begun", flush=True)
for step in range(first + 1, 401):
    session.report("00001", step, forget_loss=float(step))
    time.sleep(0.005)
time.sleep(600)
"""
    sweep.folder.mkdir()
    for moment in (0.6, 1.1):
        command = [sys.executable, "-c", script]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
    sent = sweep.points("00001")
    assert sent
    session = sweep.open()
    session.requeue("00001")
    session.start("00001")
    for step in range(1, 401):
        session.report("00001", step, forget_loss=float(step))
    session.end("00001")
    assert session.close().pending == 0
    assert len(sweep.runs()) == 2
    assert sweep.points("00001") == [(step, float(step)) for step in range(1, 401)]
    assert sent == sweep.points("00001")[: len(sent)]


@pytest.mark.slow
def test_a_sweep_killed_while_mlflow_creates_its_database_leaves_no_part_of_it(tmp_path: Path) -> None:
    script = """
import os, signal, sqlite3, time
from pathlib import Path
from tests.sweeper.followers.mlflow.conftest import open_session
open_session(Path("out"), "sqlite:///mlflow.db", "e")
while True:
    for path in Path().glob(".mlflow.db.????????"):
        names = {row[0] for row in sqlite3.connect(path).execute("select name from sqlite_master")}
        if "experiments" in names:
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.001)
"""
    command = [sys.executable, "-c", script]
    killed = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=240, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "mlflow.db").exists()
