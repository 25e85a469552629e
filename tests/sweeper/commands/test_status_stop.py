"""``status`` and ``stop``: what is said of a folder, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from search_spaces.durable import exclusive
from sweeper.folder import Origin, begin, describe
from sweeper.session import SweepSession
from sweeper.watch.desk import desk_of
from tests.sweeper.commands.conftest import invoke, refused
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_session, run_trial
from tests.sweeper.test_sweep import TARGET
from tests.sweeper.watch.test_desk import running, wait_for


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A sweep whose target is made."""
    folder = tmp_path / "out"
    begin(SETTINGS, folder)
    describe(folder, SETTINGS, Origin("id", "2026"), target=TARGET)
    return folder


@pytest.fixture
def session(out: Path) -> SweepSession:
    return bare_session(out)


@pytest.fixture
def at_work(out: Path, session: SweepSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SweepSession]:
    """The session, while this process is at the sweep."""
    monkeypatch.setattr("sweeper.watch.desk.LOOKS_EVERY", 0.02)
    with exclusive(out, RuntimeError()), desk_of(out) as desk:
        desk.follow(session)
        yield session


def told(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(invoke("status", out, "--json").stdout)
    return content


def test_status_of_a_finished_sweep_from_before_there_was_a_status_file(golden: Path) -> None:
    content = told(golden)
    assert (content["state"], content["asked"]) == ("finished", sum(content["trials"].values()))
    assert content["front"] > 0
    assert 0 < content["hypervolume"] <= 1
    assert content["cost"]["trial_seconds"] > 0
    shown = invoke("status", golden).stdout
    assert shown.startswith(f"finished: {golden}\n")


def test_status_of_a_running_sweep(out: Path, at_work: SweepSession) -> None:
    run_trial(at_work, outcome=OUTCOME)
    trial_id = running(at_work)
    at_work.reported(trial_id, {"step": 1, "epoch": 1.0, "forget_loss": 2.5, "retain_loss": 0.5, "seconds": 0.1})
    wait_for(lambda: len(told(out)["running"]) == 1)
    content = told(out)
    assert (content["state"], content["doing"], content["trials"]) == ("running", "trials", {"finished": 1})
    (shown,) = content["running"]
    assert (shown["trial_id"], shown["epoch"], shown["forget_loss"]) == (trial_id, 1.0, 2.5)
    assert f"  {trial_id} " in invoke("status", out).stdout


def test_status_of_a_killed_sweep_says_how_to_go_on(out: Path, session: SweepSession) -> None:
    with desk_of(out):
        killed = (out / "status.json").read_bytes()
    (out / "status.json").write_bytes(killed)
    trial_id = running(session)
    session.reported(trial_id, {"step": 1, "epoch": 1.0, "forget_loss": 2.5, "seconds": 0.1})
    content = told(out)
    assert content["state"] == "interrupted"
    assert [item["trial_id"] for item in content["running"]] == [trial_id]
    assert f"python -m sweeper resume {out}" in invoke("status", out).stdout


def test_status_changes_nothing(golden: Path) -> None:
    before = {path: path.read_bytes() for path in golden.iterdir()}
    told(golden)
    assert {path: path.read_bytes() for path in golden.iterdir()} == before


def test_no_sweep_has_no_status_and_cannot_be_stopped(tmp_path: Path) -> None:
    for command in ("status", "stop"):
        assert refused(command, tmp_path) == [f"{tmp_path} holds no sweep: there is no sweep.json in it"]


def test_a_sweep_that_does_not_run_cannot_be_stopped(golden: Path) -> None:
    assert refused("stop", golden) == [f"the sweep in {golden} is not running: there is nothing to stop"]
    assert refused("stop", golden, "00099") == [f"the sweep in {golden} is not running: there is nothing to stop"]
    assert refused("stop", golden, "00000") == ["trial 00000 has ended already: finished"]
    assert not (golden / "requests").exists()


def test_a_trial_that_does_not_run_cannot_be_stopped(out: Path, at_work: SweepSession) -> None:
    ended, trial_id = run_trial(at_work), running(at_work)
    wait_for(lambda: len(told(out)["running"]) == 1)
    assert refused("stop", out, ended) == [f"trial {ended} has ended already: finished"]
    assert refused("stop", out, "7") == [f"trial 7 is not running: running are {trial_id}"]
    assert not (out / "requests").exists()


def stopping(*arguments: str | Path) -> tuple[threading.Thread, list[Result]]:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(invoke("stop", *arguments)))
    thread.start()
    return thread, results


def test_stop_returns_when_the_trial_has_ended(out: Path, at_work: SweepSession) -> None:
    trial_id = running(at_work)
    wait_for(lambda: len(told(out)["running"]) == 1)
    thread, results = stopping(out, trial_id, "--json")
    wait_for(lambda: at_work.is_asked_to_end(trial_id))
    at_work.reported(trial_id, {"step": 1, "epoch": 1.0, "forget_loss": 2.5, "seconds": 0.1})
    assert not results
    at_work.stopped(trial_id)
    thread.join(20)
    assert results[0].exit_code == 0
    assert json.loads(results[0].stdout) == {"out": str(out), "trial_id": trial_id, "status": "stopped", "epoch": 1.0}


def test_stop_says_where_the_sweep_ended_first(out: Path, session: SweepSession) -> None:
    with exclusive(out, RuntimeError()), desk_of(out) as desk:
        desk.follow(session)
        trial_id = running(session)
        desk.look()
        thread, results = stopping(out, trial_id)
        wait_for(lambda: session.is_asked_to_end(trial_id))
    thread.join(20)
    assert results[0].exit_code == 1
    assert "goes on when the sweep is resumed" in results[0].stderr
