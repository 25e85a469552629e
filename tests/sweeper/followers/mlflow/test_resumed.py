"""A sweep that was stopped, killed or moved to another store is in MLflow once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import ROW, THREE, Sweep, noted


def test_a_resumed_sweep_continues_its_runs(sweep: Sweep) -> None:
    session = sweep.open()
    session.run("00001")
    session.start("00002")
    session.report("00002", 1, forget_loss=1.0)
    session.report("00002", 2, forget_loss=2.0)
    session.tracker.sweep_ended(status="interrupted", metrics={"hypervolume": 0.1})
    first = session.close()
    assert sweep.parents()[0].info.status == "KILLED"
    run_ids = {run.info.run_id for run in sweep.runs()}

    ResultTables(sweep.folder).mend({"00002": 1})
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


def test_a_failed_trial_that_is_tried_again_runs_and_loses_its_error(sweep: Sweep) -> None:
    session = sweep.open()
    session.end("00001", "failed", error="out of memory")
    session.close()
    ResultTables(sweep.folder).trials.rewrite([])  # its row is taken out by hand
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


def test_a_sweep_that_is_in_mlflow_is_not_sent_again(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_changed_parameter_of_the_sweep_is_kept_as_a_tag(sweep: Sweep) -> None:
    sweep.open().close()
    session = sweep.open(parent_params={"trials": 50, "gpus": 2})
    assert session.close().pending == 0
    (parent,) = sweep.parents()
    assert parent.data.params == {"trials": "2", "gpus": "2"}
    assert parent.data.tags["resumed.trials"] == "50"


def test_tables_put_in_order_while_they_are_followed_are_sent_once(sweep: Sweep) -> None:
    session = sweep.open()
    for trial_id in ("00002", "00001"):
        session.run(trial_id)
        wait_until(lambda trial_id=trial_id: len(sweep.runs()) > (trial_id == "00001") + 1)
    session.tables.sort()
    session.run("00003")
    session.tables.sort()
    assert session.close().pending == 0
    assert [sweep.points(trial_id) for trial_id in ("00001", "00002", "00003")] == [THREE] * 3


def test_a_line_cut_short_by_a_crash_is_dropped_and_the_rest_is_read(sweep: Sweep, dead_uri: str) -> None:
    session = sweep.open(uri=dead_uri)
    session.run("00001")
    session.close()
    for name in ("history.csv", "trials.csv"):
        with (sweep.folder / name).open("ab") as table:
            table.write(b"00001,17")
    ResultTables(sweep.folder).mend({})
    session = sweep.open()
    session.run("00002")
    assert session.close().pending == 0
    assert sweep.points("00001") == sweep.points("00002")


def test_what_a_trial_reported_during_an_outage_waits_until_it_continues(sweep: Sweep, dead_uri: str) -> None:
    """Its parameters are not in the tables before it ends, and a run without them would say nothing."""
    session = sweep.open(uri=dead_uri)
    session.start("00001")
    session.report("00001", 1, forget_loss=0.5)
    session.report("00001", 2, forget_loss=1.0)
    session.close()
    ResultTables(sweep.folder).mend({"00001": 2})
    session = sweep.open()
    session.run("00002")
    wait_until(lambda: len(sweep.runs()) == 2)
    session.start("00001")
    session.report("00001", 3, forget_loss=1.5)
    session.end("00001")
    assert session.close().pending == 0
    assert sweep.points("00001") == sweep.points("00002") == THREE


@pytest.mark.parametrize("lost", [False, True], ids=["another experiment", "a store that lost its runs"])
def test_a_store_without_its_runs_gets_the_whole_sweep(sweep: Sweep, lost: bool) -> None:
    session = sweep.open()
    session.run("00001")
    session.close()
    if lost:
        with sqlite3.connect(sweep.uri.removeprefix("sqlite:///")) as connection:
            connection.execute(
                "delete from runs where experiment_id = (select experiment_id from experiments where name = ?)",
                [sweep.experiment],
            )
    else:
        sweep.experiment += " again"
    assert sweep.runs() == []
    assert sweep.open().close().pending == 0
    assert len(sweep.runs()) == 2
    assert sweep.points("00001") == THREE


@pytest.mark.faults
def test_a_killed_sweep_resumes_without_doubles(sweep: Sweep, tmp_path: Path) -> None:
    """Killed twice while it sends, each time at another moment."""
    script = f"""
import time
from pathlib import Path
from sweeper.store.tables import ResultTables
from sweeper.followers.mlflow import Tracker
tables = ResultTables(Path({str(sweep.folder)!r}))
first = max((int(row["step"]) for row in tables.history.read()), default=0) // 2
tables.mend({{"00001": first}})
tracker = Tracker(tables=tables, sweep_id={sweep.sweep_id!r}, uri={sweep.uri!r}, experiment={sweep.experiment!r},
                  sweep_name="my sweep", parent_params={{"trials": 2}}, parent_tags={{}},
                  artifact_root=Path({str(tmp_path)!r}))
tracker.trial_started("00001", {ROW!r})
while not tracker._delivery.sweep_run_id:
    time.sleep(0.001)
print("begun", flush=True)
for step in range(first + 1, 401):
    tables.add_report("00001", {{"step": step, "forget_loss": float(step)}})
    tables.write()
    tracker.wake()
    time.sleep(0.005)
time.sleep(600)
"""
    sweep.folder.mkdir()
    for moment in (0.6, 1.1):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
    sent = sweep.points("00001")
    assert sent
    ResultTables(sweep.folder).mend({})
    session = sweep.open()
    session.start("00001")
    for step in range(1, 401):
        session.report("00001", step, forget_loss=float(step))
    session.end("00001")
    assert session.close().pending == 0
    assert len(sweep.runs()) == 2
    assert sweep.points("00001") == [(step, float(step)) for step in range(1, 401)]
    assert sent == sweep.points("00001")[: len(sent)]


def test_a_sweep_killed_while_mlflow_sets_up_its_database_leaves_none_half_made(tmp_path: Path) -> None:
    script = """
import os, signal, sqlite3, time
from pathlib import Path
from sweeper.store.tables import ResultTables
from sweeper.followers.mlflow import Tracker
Tracker(tables=ResultTables(Path("out")), sweep_id="0", uri="sqlite:///mlflow.db", experiment="e", sweep_name="s",
        parent_params={}, parent_tags={}, artifact_root=Path("artifacts"))
while True:
    for path in Path().rglob("*.db"):
        names = {row[0] for row in sqlite3.connect(path).execute("select name from sqlite_master")}
        if "experiments" in names:
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.001)
"""
    command = [sys.executable, "-c", script]
    killed = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=240, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
