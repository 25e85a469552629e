"""The process at a sweep tells others how it stands, and hears what they ask of it: every second, beside its work."""

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

from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.followers.display import describe
from sweeper.followers.status_file import FAILED, FINISHED, INTERRUPTED, RUNNING, Published
from sweeper.followers.stop_requests import take
from sweeper.session import SweepSession
from sweeper.store.version import PACKAGES

LOOKS_EVERY = 1.0
"""Seconds between two looks for requests."""


@dataclass(eq=False)
class ControlServer:
    """Where others find the process: status.json and the requests in the folder ``out``."""

    out: Path
    session: SweepSession | None = None
    _told: Published = field(init=False)
    _warning: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        run, now = uuid.uuid4().hex, time.time()
        self._told = Published(run=run, state=RUNNING, host=socket.gethostname(), pid=os.getpid(), started_at=now)
        take(self.out, run)  # what was asked of an earlier process
        self._tell(replace(self._told, doing="target"), anyway=True)

    def follow(self, session: SweepSession) -> None:
        """The sweep has its session."""
        self.session = session
        if self._warning is not None:
            session.display.warned(self._warning[0])

    def warned(self, text: str) -> None:
        """A line of the log that is a warning or worse."""
        self._warning = text, time.time()
        if self.session is not None:
            self.session.display.warned(text)

    def look(self) -> None:
        """Pass on what is asked, and tell what has changed."""
        for request in take(self.out, self._told.run):
            if request.trial_id is None:
                if not is_interrupted():  # a second signal would not wait for the trials' states
                    os.kill(os.getpid(), signal.SIGINT)
            elif self.session is not None:
                self.session.ask_to_end(request.trial_id)
        self._tell(self._now())

    def close(self, error: BaseException | None) -> None:
        """Tell how the process ended."""
        session = self.session
        broken = session is not None and session.broken is not None
        state = FINISHED if error is None and not broken else INTERRUPTED
        if error is not None and not isinstance(error, Interrupted | KeyboardInterrupt):
            state = FAILED
            self.warned(" ".join(str(error).split()) or type(error).__name__)
        end = session.end if session is not None else None
        told = replace(self._now(), state=state, doing="", running=(), waiting=(), to_end=())
        self._tell(replace(told, ended_because=end.because if end and error is None else ""), anyway=True)

    def _now(self) -> Published:
        text, at = self._warning or ("", None)
        if (session := self.session) is None:
            return replace(self._told, warning=text, warned_at=at)
        display, estimate = session.display, session.pace.estimate() if session.pace else None
        running = tuple(
            {"trial_id": row["trial_id"], "settings": describe(row)}
            | {name: row.get(name) for name in ("epochs", "since")}
            for row in display.running
        )
        return replace(
            self._told,
            doing=display.doing,
            running=running,
            waiting=tuple(sorted({*display.waiting, *session.kept_back})),
            to_end=tuple(sorted(session.to_end)),
            left_trials=estimate.trials if estimate else None,
            left_seconds=estimate.seconds if estimate else None,
            warning=display.course.warning or text,
            warned_at=display.course.warned_at or at,
        )

    def _tell(self, now: Published, *, anyway: bool = False) -> None:
        if anyway or now != self._told:
            with contextlib.suppress(OSError):
                now.write(self.out)
                self._told = now


class _Heard(logging.Handler):
    """Passes on each warning of the project's own, and has it printed as it was without this handler."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(" ".join(record.getMessage().split()))
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


@contextlib.contextmanager
def control_server(out: Path) -> Iterator[ControlServer]:
    """The desk of the process that holds the sweep in ``out``, while the block runs."""
    desk, over = ControlServer(out), threading.Event()

    def watch() -> None:
        while not over.wait(LOOKS_EVERY):
            with contextlib.suppress(Exception):  # what goes wrong here must not cost the sweep
                desk.look()

    heard = _Heard(desk.warned)
    loggers = [logging.getLogger(name) for name in PACKAGES]
    for logger in loggers:
        logger.addHandler(heard)
    watcher = threading.Thread(target=watch, name="desk", daemon=True)
    watcher.start()
    error: BaseException | None = None
    try:
        yield desk
    except BaseException as raised:
        error = raised
        raise
    finally:
        over.set()
        watcher.join()
        for logger in loggers:
            logger.removeHandler(heard)
        desk.close(error)
