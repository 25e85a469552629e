"""Let other processes watch and stop a running sweep, through status.json and stop requests."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sweeper.driver.finalize import Summary
from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.status_file import FAILED, FINISHED, INTERRUPTED, RUNNING, TARGET, StatusFile
from sweeper.driver.stop_requests import take_requests
from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, TrialEnded
from sweeper.store.state import SweepState
from sweeper.store.version import PACKAGES
from trainables.run.reports import Status

POLL_SECONDS = 1.0
"""Seconds between two calls of :meth:`ControlServer.poll`."""


class ControlServer(Follower):
    """A context manager that updates status.json and executes stop requests every second, in another thread.

    The process must hold the lock of the folder ``out``.
    """

    needs_disk = False

    def __init__(self, out: Path) -> None:
        self._out = out
        self._sweep: OpenSweep | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="control-server", daemon=True)
        self._handler = _WarningHandler(self._record_warning)
        run_id = uuid.uuid4().hex
        self._status = StatusFile(run=run_id, state=RUNNING, host=socket.gethostname(), pid=os.getpid(), doing=TARGET)
        self._written_status: StatusFile | None = None
        take_requests(out, run_id)  # delete the requests that a previous process did not execute
        self._write(self._status)

    def __enter__(self) -> ControlServer:
        for name in PACKAGES:
            logging.getLogger(name).addHandler(self._handler)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._closed.set()
        self._thread.join()
        for name in PACKAGES:
            logging.getLogger(name).removeHandler(self._handler)
        self._write_final_status(error)

    def follow(self, sweep: OpenSweep) -> None:
        """From now on, report the state of ``sweep`` in status.json, and pass stop requests to the sweep."""
        self._sweep = sweep
        sweep.log.attach(self)

    def apply(self, event: Event, state: SweepState) -> None:
        """Show the failure of a trial as a warning in status.json."""
        if isinstance(event, TrialEnded) and event.outcome.status is Status.FAILED:
            reason = event.outcome.error or "no reason was recorded"
            self._record_warning(f"trial {event.trial_id} failed: {reason}")

    def poll(self) -> None:
        """Execute new stop requests, and update status.json."""
        for trial_id in set(take_requests(self._out, self._status.run)):
            if trial_id is None:
                if not is_interrupted():  # a second signal would stop trials without saving their states
                    os.kill(os.getpid(), signal.SIGINT)
            elif self._sweep is not None:
                self._sweep.controller.request_stop(trial_id)
        self._write(self._current_status())

    def close_after(self, finalize: Callable[[], Summary]) -> Summary:
        """Call ``finalize``, write the final state to status.json, and return the summary.

        Call this method if the process exits before the end of the ``with`` block.
        """
        with contextlib.ExitStack() as stack:
            stack.push(self)
            return finalize()

    def _watch(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            with contextlib.suppress(Exception):  # an error here must not end the sweep
                self.poll()

    def _record_warning(self, text: str) -> None:
        self._status = replace(self._status, warning=text, warned_at=time.time())

    def _write_final_status(self, error: BaseException | None) -> None:
        failure = end = None
        if self._sweep is not None:
            failure = self._sweep.controller.failure
            if self._sweep.remaining_trials > 0 or failure is not None:
                end = self._sweep.controller.end
        if error is None:
            state = FINISHED if failure is None else INTERRUPTED
        elif isinstance(error, Interrupted | KeyboardInterrupt):
            state = INTERRUPTED
        else:
            state = FAILED
            self._record_warning(" ".join(str(error).split()) or type(error).__name__)
        reason = end.because if end is not None and error is None else ""
        self._write(replace(self._current_status(), state=state, doing="", ended_because=reason))

    def _current_status(self) -> StatusFile:
        if self._sweep is None:
            return self._status
        display = self._sweep.display
        left = None if display.remaining is None else display.remaining()
        return replace(self._status, doing=display.activity, left=left)

    def _write(self, status: StatusFile) -> None:
        if status != self._written_status:
            with contextlib.suppress(OSError):
                status.write(self._out)
                self._written_status = status


class _WarningHandler(logging.Handler):
    """Passes each warning of the project to the function ``on_warning``.

    If the root logger has no handlers, it also prints the warning in Python's default format.
    """

    def __init__(self, on_warning: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_warning = on_warning

    def emit(self, record: logging.LogRecord) -> None:
        self._on_warning(" ".join(record.getMessage().split()))
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)
