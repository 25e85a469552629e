"""The control server: the content of status.json, and stop requests that are executed once, by the named process."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from sweeper.driver.control_server import ControlServer
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import Interrupted, interruptible
from sweeper.followers.status_file import StatusFile
from sweeper.followers.stop_requests import ask, take
from sweeper.store.events import Kind
from tests.sweeper.conftest import run_trial, running


def status_of(out: Path) -> StatusFile:
    found = StatusFile.read(out)
    assert found is not None
    return found


def serving(sweep: OpenSweep) -> ControlServer:
    server = ControlServer(sweep.out)
    server.follow(sweep)
    return server


# Requests -----------------------------------------------------------------------------------------------------------


def test_a_request_is_taken_once_by_its_process_and_other_requests_are_deleted(out: Path) -> None:
    ask(out, "mine", "00001")
    ask(out, "other")
    for name, content in (("a", "{"), ("b", '{"run": "mine", "more": 1}'), ("c", "3")):
        (out / f".stop-{name}.json").write_text(content)
    assert [take(out, run) for run in ("mine", "mine", "other")] == [["00001"], [], []]
    assert list(out.iterdir()) == []


def test_requests_can_be_made_while_requests_are_taken(out: Path) -> None:
    taken: list[str | None] = []
    over = threading.Event()

    def take_all() -> None:
        while not over.is_set():
            taken.extend(take(out, "mine"))

    taker = threading.Thread(target=take_all)
    taker.start()
    try:
        for number in range(300):
            ask(out, "mine", str(number))
    finally:
        over.set()
        taker.join()
    assert {*taken, *take(out, "mine")} == set(map(str, range(300)))


def test_a_resumed_sweep_ignores_requests_to_the_killed_process(sweep: OpenSweep, out: Path) -> None:
    ControlServer(out).poll()  # the process is killed afterwards
    ask(out, status_of(out).run, "00000")
    server = serving(sweep)
    trial_id = running(sweep)
    server.poll()
    assert not sweep.log.state.trials[trial_id].stop_requested


def test_a_request_stops_only_running_and_paused_trials(sweep: OpenSweep, out: Path) -> None:
    server = serving(sweep)
    ended, paused, trial_id = run_trial(sweep), running(sweep), running(sweep)
    sweep.log.record(Kind.TRIAL_PAUSED, paused)
    for asked in (trial_id, paused, ended, "00099"):
        ask(out, status_of(out).run, asked)
    server.poll()
    assert [trial.id for trial in sweep.log.state.trials.values() if trial.stop_requested] == [paused, trial_id]
    assert sweep.controller.is_stopped_early(paused)


def test_requests_for_the_sweep_interrupt_the_sweep_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.driver.control_server.POLL_SECONDS", 0.02)
    signals = 0

    def ask_three_times() -> None:
        for _ in range(3):
            ask(out, status_of(out).run)

    def work() -> None:
        nonlocal signals
        asker.start()
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            signals += 1
            time.sleep(0.3)  # the other requests are taken, and send no second signal
            raise

    asker = threading.Thread(target=ask_three_times)
    with pytest.raises(Interrupted), interruptible(), ControlServer(out):
        work()
    assert signals == 1
    assert status_of(out).state == "interrupted"
    assert not [*out.glob(".stop-*")]


# The status file ----------------------------------------------------------------------------------------------------


def test_the_status_has_the_current_step_and_the_estimate(sweep: OpenSweep, out: Path) -> None:
    with ControlServer(out) as server:
        assert (status_of(out).state, status_of(out).doing) == ("running", "target")
        server.follow(sweep)
        run_trial(sweep)
        server.poll()
        assert (status_of(out).doing, status_of(out).left) == ("trials", sweep.estimate())
    assert (status_of(out).state, status_of(out).doing) == ("finished", "")


@pytest.mark.parametrize(("error", "state"), [(Interrupted(), "interrupted"), (ValueError("no\nway"), "failed")])
def test_the_status_has_the_reason_of_the_end(out: Path, error: Exception, state: str) -> None:
    with pytest.raises(type(error)), ControlServer(out):
        raise error
    assert (status_of(out).state, status_of(out).warning) == (state, "no way" if state == "failed" else "")
    content = json.loads((out / "status.json").read_text())
    (out / "status.json").write_text(json.dumps(content | {"new": 1}))
    assert StatusFile.read(out) is None, "a status file of another version"


def test_after_an_infrastructure_failure_the_state_is_interrupted_with_the_reason(sweep: OpenSweep, out: Path) -> None:
    with ControlServer(out) as server:
        server.follow(sweep)
        run_trial(sweep, outcome={"status": "failed", "error": "OSError: [Errno 28] No space left on device"})
    failure = sweep.controller.failure
    assert failure is not None
    assert (status_of(out).state, status_of(out).ended_because) == ("interrupted", failure.because)


def test_the_last_warning_is_in_the_status_and_on_stderr(
    sweep: OpenSweep, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with ControlServer(out) as server:
        logging.getLogger("sweeper.store.event_log").warning("the disk is\nslow")
        server.poll()
        assert status_of(out).warning == "the disk is slow"
        server.follow(sweep)
        run_trial(sweep, outcome={"status": "failed", "error": "ValueError: no"})
        server.poll()
        assert "ValueError: no" in status_of(out).warning
    assert "slow" in capsys.readouterr().err
    assert not [item for item in logging.getLogger("sweeper").handlers if type(item).__module__.startswith("sweeper")]
