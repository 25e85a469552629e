"""A process at a sweep and what others ask of it: each request is obeyed once, by the process it is for."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest
from sweeper.followers.control_server import ControlServer, control_server
from sweeper.session import SweepSession

from sweeper.driver.ray_bridge import AskedToEnd
from sweeper.execution.shutdown import Interrupted, interruptible
from sweeper.followers.status_file import Published
from sweeper.followers.stop_requests import Request, ask, take
from tests.sweeper.conftest import bare_session, running


def told(out: Path) -> Published:
    found = Published.read(out)
    assert found is not None
    return found


# Requests -----------------------------------------------------------------------------------------------------------


def test_a_request_is_taken_once_by_the_process_it_is_for_and_others_are_removed(out: Path) -> None:
    mine = Request(run="mine", trial_id="00001")
    for request in (mine, Request(run="other")):
        ask(out, request)
    for name, content in (("a.json", "{"), ("b.json", '{"run": "mine", "more": 1}'), ("c.json", "3")):
        (out / "requests" / name).write_text(content)
    assert [take(out, run) for run in ("mine", "mine", "other")] == [[mine], [], []]
    assert list(out.iterdir()) == []


def test_a_resumed_sweep_obeys_nothing_that_was_asked_before(session: SweepSession, out: Path) -> None:
    first = ControlServer(out)
    first.look()
    ask(out, Request(run=told(out).run, trial_id="00000"))
    second = ControlServer(out)  # the first was killed
    second.follow(session)
    running(session)
    second.look()
    assert session.to_end == set()


# What the process publishes ------------------------------------------------------------------------------------------


def test_a_process_publishes_what_runs(session: SweepSession, out: Path) -> None:
    with control_server(out) as desk:
        assert (told(out).state, told(out).doing) == ("running", "target")
        desk.follow(session)
        trial_id = running(session)
        desk.look()
        (shown,) = told(out).running
        assert (shown["trial_id"], "lr=" in shown["settings"]) == (trial_id, True)
        assert told(out).doing == "trials"
    assert (told(out).state, told(out).running) == ("finished", ())


@pytest.mark.parametrize(("error", "state"), [(Interrupted(), "interrupted"), (ValueError("no\nway"), "failed")])
def test_a_process_publishes_what_ended_it(out: Path, error: Exception, state: str) -> None:
    with pytest.raises(type(error)), control_server(out):
        raise error
    assert (told(out).state, told(out).warning) == (state, "no way" if state == "failed" else "")
    content = json.loads((out / "status.json").read_text())
    (out / "status.json").write_text(json.dumps(content | {"new": 1}))
    assert Published.read(out) is None, "a status file of another version"


def test_the_last_warning_is_told_and_still_printed(
    session: SweepSession, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with control_server(out) as desk:
        logging.getLogger("sweeper.session").warning("the disk is\nslow")
        desk.look()
        assert told(out).warning == "the disk is slow"
        desk.follow(session)
        assert session.display.course.warning == "the disk is slow"
    assert "slow" in capsys.readouterr().err
    assert not [item for item in logging.getLogger("sweeper").handlers if type(item).__module__.startswith("sweeper")]


# What is asked of it ------------------------------------------------------------------------------------------------


def test_a_trial_that_is_asked_to_ends_with_its_next_report_as_stopped(session: SweepSession, out: Path) -> None:
    desk = ControlServer(out)
    desk.follow(session)
    trial_id, stopper = running(session), AskedToEnd(session)
    result = {"config": {"trial_id": trial_id}, "report": {"step": 1}}
    assert not stopper("of-tune", result)
    ask(out, Request(run=told(out).run, trial_id=trial_id))
    desk.look()
    assert told(out).to_end == (trial_id,)
    assert stopper("of-tune", result)
    assert not stopper("of-tune", {"config": {"trial_id": "other"}})
    session.reported(trial_id, {"step": 1, "epoch": 1.0, "forget_loss": 2.5, "seconds": 0.1})
    assert session.is_ended_early(trial_id)
    session.stopped(trial_id)
    for no_more in (trial_id, "00099"):
        ask(out, Request(run=told(out).run, trial_id=no_more))
    desk.look()
    (row,) = session.tables.trials.read()
    assert (row["status"], row["epochs_done"], row["forget_loss"], row["error"]) == ("stopped", "1.0", "2.5", "")
    assert session.to_end == set()


def test_a_trial_that_was_kept_back_ends_where_it_stands(out: Path) -> None:
    session = bare_session(out)
    trial_id = running(session)
    session.display.paused(trial_id)
    session._waiting[trial_id] = session.study.ask(), session._specs[trial_id]  # type: ignore[assignment]
    session.ask_to_end(trial_id)
    session.end_kept_back()
    (row,) = session.tables.trials.read()
    assert row["status"] == "stopped"
    assert session.kept_back == []


def test_a_request_for_the_sweep_ends_it_as_ctrl_c_does_and_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.followers.control_server.LOOKS_EVERY", 0.02)
    signals = 0

    def asking() -> None:
        for _ in range(3):
            ask(out, Request(run=told(out).run))

    def at_work() -> None:
        nonlocal signals
        asker.start()
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            signals += 1
            time.sleep(0.3)  # the others are taken, and send no second signal
            raise

    asker = threading.Thread(target=asking)
    with pytest.raises(Interrupted), interruptible(), control_server(out):
        at_work()
    assert signals == 1
    assert told(out).state == "interrupted"
    assert not (out / "requests").exists()
