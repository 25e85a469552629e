"""Let other processes watch and stop a running sweep: write status.json and execute stop requests every second."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeper.driver.finalize import Summary
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.followers.status_file import FAILED, FINISHED, INTERRUPTED, RUNNING, StatusFile
from sweeper.followers.stop_requests import take
from sweeper.store.state import Phase
from sweeper.store.version import PACKAGES

LOOKS_EVERY = 1.0
"""Seconds between two checks for stop requests."""


@dataclass(eq=False)
class ControlServer:
    """Writes status.json to the folder ``out`` and executes the stop requests found there.

    ``sweep`` is None until the sweep is open.
    """

    out: Path
    sweep: OpenSweep | None = None
    _written: StatusFile = field(init=False)
    _warning: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        run = uuid.uuid4().hex
        self._written = StatusFile(run=run, state=RUNNING, host=socket.gethostname(), pid=os.getpid())
        take(self.out, run)  # delete the requests to a previous process
        self._write(replace(self._written, doing="target"), always=True)

    def follow(self, sweep: OpenSweep) -> None:
        """Report the state of ``sweep`` in status.json from now on."""
        self.sweep = sweep
        if self._warning is not None:
            sweep.followers.display.warn(self._warning[0])

    def warned(self, text: str) -> None:
        """Show a logged warning or error in status.json and on the display."""
        self._warning = text, time.time()
        if self.sweep is not None:
            self.sweep.followers.display.warn(text)

    def look(self) -> None:
        """Execute new stop requests, and write status.json if its content has changed."""
        for trial_id in take(self.out, self._written.run):
            if trial_id is None:
                if not is_interrupted():  # a second signal would stop trials without saving their states
                    os.kill(os.getpid(), signal.SIGINT)
            elif self.sweep is not None:
                self.sweep.controller.request_stop(trial_id)
        self._write(self._now())

    def close(self, error: BaseException | None) -> None:
        """Write the final state of the sweep to status.json: finished, interrupted or failed.

        ``error`` is the exception that ended the sweep, or None.
        """
        controller = self.sweep.controller if self.sweep is not None else None
        failed = controller is not None and controller.failure is not None
        state = FINISHED if error is None and not failed else INTERRUPTED
        if error is not None and not isinstance(error, Interrupted | KeyboardInterrupt):
            state = FAILED
            self.warned(" ".join(str(error).split()) or type(error).__name__)
        end = controller.end if controller is not None and self._has_remaining_trials() else None
        now = replace(self._now(), state=state, doing="", running=(), waiting=())
        self._write(replace(now, ended_because=end.because if end and error is None else ""), always=True)

    def closed_by(self, finalize: Callable[[], Summary]) -> Summary:
        """Call ``finalize``, then :meth:`close`, and return the summary.

        Used if the process exits without leaving the ``with`` block of :func:`control_server`.
        """
        try:
            summary = finalize()
        except BaseException as error:
            self.close(error)
            raise
        self.close(None)
        return summary

    def _has_remaining_trials(self) -> bool:
        return self.sweep is not None and (self.sweep.remaining_trials > 0 or self.sweep.controller.failure is not None)

    def _now(self) -> StatusFile:
        text, at = self._warning or ("", None)
        if (sweep := self.sweep) is None:
            return replace(self._written, warning=text, warned_at=at)
        display, trials = sweep.followers.display, list(sweep.log.state.trials.values())
        left = display.remaining() if display.remaining else None
        paused = (trial.id for trial in trials if trial.phase is Phase.PAUSED)
        return replace(
            self._written,
            doing=display.activity,
            running=tuple(trial.id for trial in trials if trial.phase is Phase.RUNNING),
            waiting=tuple(sorted({*paused, *sweep.controller.at_rung})),
            left_trials=left.trials if left else None,
            left_seconds=left.seconds if left else None,
            warning=display.warning or text,
            warned_at=display.warned_at or at,
        )

    def _write(self, now: StatusFile, *, always: bool = False) -> None:
        if always or now != self._written:
            with contextlib.suppress(OSError):
                now.write(self.out)
                self._written = now


class _WarningHandler(logging.Handler):
    """Passes each warning of this project to ``warned``. The warning is also printed, as without this handler."""

    def __init__(self, warned: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warned = warned

    def emit(self, record: logging.LogRecord) -> None:
        self._warned(" ".join(record.getMessage().split()))
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


@contextlib.contextmanager
def control_server(out: Path) -> Iterator[ControlServer]:
    """Run the control server while the block runs. The calling process must hold the lock of the folder ``out``."""
    server, over = ControlServer(out), threading.Event()

    def watch() -> None:
        while not over.wait(LOOKS_EVERY):
            with contextlib.suppress(Exception):  # an error here must not end the sweep
                server.look()

    handler = _WarningHandler(server.warned)
    loggers = [logging.getLogger(name) for name in PACKAGES]
    for logger in loggers:
        logger.addHandler(handler)
    watcher = threading.Thread(target=watch, name="control-server", daemon=True)
    watcher.start()
    error: BaseException | None = None
    try:
        yield server
    except BaseException as raised:
        error = raised
        raise
    finally:
        over.set()
        watcher.join()
        for logger in loggers:
            logger.removeHandler(handler)
        server.close(error)
