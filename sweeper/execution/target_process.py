"""Fine-tune the target of a new sweep in a separate process while Ray starts in the driver.

Starting and importing Ray takes five seconds. Training in the same process would have to wait for these imports,
because they hold Python's global interpreter lock. A separate process also leaves no weights and no GPU memory in the
driver.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from sweeper.execution.target_task import FillCache, Show
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, TargetError, is_made
from trainables.target.target import target_spec_of


@contextmanager
def target_process(spec: TrialSpec) -> Iterator[FillCache | None]:
    """Start a process that fine-tunes the target for ``spec``. The process is killed when the block ends.

    Yields:
        None if the target needs no training. Otherwise a function that waits until the target is in the cache, and
        passes progress reports to its second argument. The function raises the process's error, or TargetError if the
        process died.
    """
    target_spec = target_spec_of(spec)
    if os.name != "posix" or target_spec.target_path or is_made(Cache().model(target_spec.trained_key)):
        yield None
        return
    ours, theirs = Pipe()
    command = f"from {__name__} import serve; serve({theirs.fileno()})"
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.PIPE,  # closed if the driver dies
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        ) as process,
    ):
        theirs.close()
        ours.send(spec)

        def wait(spec: TrialSpec, show: Show) -> None:
            try:
                while (news := ours.recv()) is not None:
                    if isinstance(news, Exception):
                        raise news
                    show(news)
            except (EOFError, ConnectionError):
                code = process.wait()
                cause = "killed, perhaps for lack of memory" if code == -signal.SIGKILL else f"exit code {code}"
                raise TargetError(f"the process that fine-tunes the target ended unexpectedly ({cause})") from None

        try:
            yield wait
        finally:
            process.kill()


def serve(descriptor: int) -> None:
    """Prepare the target for the spec that the driver sends. Send the progress, then None or an error for the user."""
    from trainables.target.prepare import prepare_target

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    threading.Thread(target=_end_with_driver, daemon=True).start()
    with Connection(descriptor) as driver:
        try:
            prepare_target(driver.recv(), on_progress=driver.send)
            driver.send(None)
        except Exception as error:
            if not hasattr(error, "exit_code"):  # not an error that a user can fix
                raise
            driver.send(error)


def _end_with_driver() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
