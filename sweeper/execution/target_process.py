"""Fine-tune and score the target of a sweep in a separate process while Ray starts in the driver.

Starting and importing Ray takes five seconds. Training in the same process would have to wait for these imports,
because they hold Python's global interpreter lock. A separate process also leaves no weights and no GPU memory in the
driver.

The separate process runs this file as a script. The standard input of that process is a socket to the driver.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import psutil

from sweeper.execution.target_task import FillCache, Show
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, NotCached, TargetError
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target import target_spec_of


@contextmanager
def target_process(
    spec: TrialSpec, *, python: Callable[[], Sequence[str] | None] = lambda: None
) -> Iterator[FillCache | None]:
    """Start a process that prepares the target for ``spec``. The process is killed when the block ends.

    Args:
        python: returns the command that starts a Python process, or None for this interpreter. ``python`` is called
            only if a process is needed.

    Yields:
        None if the cache has the target and its scores. Otherwise a function ``wait(spec, show)`` that waits until they
        are in the cache and calls ``show`` with each progress report. ``wait`` raises the process's error, or
        TargetError if the process died.

    Raises:
        DataError, TargetError, LoadError: the target cannot be prepared; the message is for the user.
    """
    if os.name != "posix" or _is_cached(spec):
        yield None
        return
    ours, theirs = Pipe()
    command = [*(python() or [sys.executable]), __file__]
    with subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL) as process, ours:
        theirs.close()
        ours.send(spec)

        def wait(spec: TrialSpec, show: Show) -> None:
            try:
                while (news := ours.recv()) is not None:
                    if isinstance(news, Exception):
                        raise news
                    show(news)
            except (EOFError, ConnectionError):
                raise TargetError(
                    "the process that prepares the target was killed, perhaps because the memory is full"
                ) from None

        try:
            yield wait
        finally:
            process.kill()


def _is_cached(spec: TrialSpec) -> bool:
    try:
        Preparation(spec=target_spec_of(spec), cache=Cache(computing=False)).target()
    except NotCached:
        return False
    return True


# The program ----------------------------------------------------------------------------------------------------------


def serve(driver: Connection) -> None:
    """Prepare the target for the spec that the driver sends. Send it the progress, and finally None or an error.

    The process ends when the driver closes the connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    spec = driver.recv()
    threading.Thread(target=_end_with_driver, args=[driver], daemon=True).start()
    if sys.platform == "linux":
        _set_threads()
    try:
        prepare_target(spec, on_progress=driver.send)
        driver.send(None)
    except Exception as error:
        if hasattr(error, "exit_code"):  # an error that a user can fix
            driver.send(error)
            return
        traceback.print_exc()
        driver.send(TargetError(f"the process that prepares the target failed: {type(error).__name__}: {error}"))


def _set_threads() -> None:
    """Set torch's default number of threads, because a process from the fork server has a worker's number."""
    import torch

    cores = min(psutil.cpu_count(logical=False) or 1, len(os.sched_getaffinity(0)))
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", str(cores)).split(",")[0]))


def _end_with_driver(driver: Connection) -> None:
    try:
        driver.recv()
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    serve(Connection(0))
