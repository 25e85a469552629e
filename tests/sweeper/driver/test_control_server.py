"""The control server: the content of status.json, and stop requests that are executed once, by the named process."""

from __future__ import annotations

import json
import logging
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.controller import FULL_DISK
from sweeper.driver.control_server import ControlServer
from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.status_file import StatusFile
from sweeper.driver.stop_requests import request_stop, take_requests
from sweeper.execution.shutdown import Interrupted, interruptible
from sweeper.store.events import TrialCut
from tests.sweeper.conftest import SETTINGS, bare_sweep, run_trial, running


def status_of(out: Path) -> StatusFile:
    found = StatusFile.read(out)
    assert found is not None
    return found


def test_requests_can_be_made_while_requests_are_taken(out: Path) -> None:
    taken: list[str | None] = []
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(lambda: [request_stop(out, "mine", str(number)) for number in range(100)])
        while not asking.done():
            taken += take_requests(out, "mine")
    assert {*taken, *take_requests(out, "mine")} == set(map(str, range(100)))


def test_a_request_stops_only_running_and_paused_trials_of_its_process(out: Path) -> None:
    sweep = bare_sweep(out, replace(SETTINGS, trials=4))
    ended, paused, trial_id, other = run_trial(sweep), running(sweep), running(sweep), running(sweep)
    sweep.log.record(TrialCut(paused, waits=True))
    ControlServer(out).poll()  # the process is killed afterwards
    request_stop(out, status_of(out).run, other)
    server = ControlServer(out)
    server.follow(sweep)
    for asked in (trial_id, paused, ended, "00099"):
        request_stop(out, status_of(out).run, asked)
    request_stop(out, "of another process", other)
    (out / ".stop-damaged.json").write_text("{")
    server.poll()
    assert not [*out.glob(".stop-*")]
    assert [trial.id for trial in sweep.log.state.trials.values() if trial.stop_requested] == [paused, trial_id]
    assert sweep.controller.is_stopped_early(paused)


def test_requests_for_the_sweep_interrupt_the_sweep_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.driver.control_server.POLL_SECONDS", 0.02)
    signals = 0

    def work() -> None:
        nonlocal signals
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            signals += 1
            request_stop(out, server_id)  # a request during the interruption sends no second signal
            time.sleep(0.3)
            raise

    server = ControlServer(out)
    server_id = status_of(out).run
    for _ in range(2):
        request_stop(out, server_id)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted), interruptible("", say=print), server:
        work()
    assert signal.getsignal(signal.SIGTERM) is before
    assert signals == 1
    assert status_of(out).state == "interrupted"
    assert not [*out.glob(".stop-*")]


@pytest.mark.parametrize(
    ("error", "state", "warning"),
    [(None, "finished", ""), (Interrupted(), "interrupted", ""), (ValueError("no\nway"), "failed", "no way")],
)
def test_the_end_is_written_before_the_process_is_ended(
    out: Path, error: Exception | None, state: str, warning: str
) -> None:
    """After the loss of Ray's head, another thread finalizes the sweep and ends the process."""
    with ControlServer(out) as server:
        with pytest.raises(type(error)) if error else nullcontext():
            assert server.close_after(Mock(return_value="summary", side_effect=error)) == "summary"
        assert (status_of(out).state, status_of(out).warning) == (state, warning)
    content = json.loads((out / "status.json").read_text())
    (out / "status.json").write_text(json.dumps(content | {"new": 1}))
    assert StatusFile.read(out) is None, "a status file of another version"


def test_the_status_has_the_current_step_the_last_warning_and_the_failure_that_ends_the_sweep(
    sweep: OpenSweep, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    handlers = [*logging.getLogger("sweeper").handlers]
    with ControlServer(out) as server:
        assert (status_of(out).state, status_of(out).doing) == ("running", "target")
        logging.getLogger("sweeper.store.event_log").warning("the disk is\nslow")
        server.poll()
        assert status_of(out).warning == "the disk is slow"
        server.follow(sweep)
        run_trial(sweep, outcome={"status": "failed", "error": "OSError: [Errno 28] No space left on device"})
        server.poll()
        assert "No space left" in status_of(out).warning
        assert (status_of(out).doing, status_of(out).left) == ("trials", sweep.estimate())
    assert (status_of(out).state, status_of(out).ended_because) == ("interrupted", FULL_DISK.because)
    assert "slow" in capsys.readouterr().err
    assert logging.getLogger("sweeper").handlers == handlers
