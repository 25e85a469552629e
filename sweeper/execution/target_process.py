"""Prepare the target of a sweep in a separate process while Ray starts in the driver.

Importing and starting Ray takes five seconds. In a thread of the driver, the target's training would wait for these
imports, because they hold Python's global interpreter lock. A separate process also keeps the weights out of the
driver's memory. The process runs :mod:`sweeper.execution.target_program`, which calls :func:`serve`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from sweeper.execution.target_task import FillCache, Show
from sweeper.execution.threads import free_threads
from sweeper.settings.resources import local_gpu_count
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, NotCached, TargetError
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target import target_spec_of

_PROGRAM = Path(__file__).with_name("target_program.py")


@contextlib.contextmanager
def target_process(
    spec: TrialSpec, *, python: Callable[[], Sequence[str] | None] = lambda: None, is_new: bool = False
) -> Iterator[FillCache | None]:
    """Start a process that prepares the target. The process ends when the block ends.

    Args:
        python: the function that returns the command for a forked Python process. If the function returns None, a new
            Python process is started instead.
        is_new: whether the sweep is new. For a new sweep with ``spec.target_path``, the process is always started,
            because a look-up in the cache would hash the weights, which takes long.

    Yields:
        A function ``(spec, show)`` that waits until the target is in the cache, and calls ``show`` with the progress.
        None if the target is already in the cache, or if the system is not POSIX.
    """
    is_looked_up = not (is_new and spec.target_path)
    if os.name != "posix" or (is_looked_up and _is_cached(spec)):
        yield None
        return
    threads = free_threads()  # before Ray and the target need CPUs
    driver_end, child_end = Pipe()
    forked_python = None if local_gpu_count() else python()
    interpreter = forked_python or [sys.executable]
    with (
        subprocess.Popen(
            [*interpreter, str(_PROGRAM)],
            stdin=child_end.fileno(),
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the driver
        ) as process,
        driver_end,
    ):
        child_end.close()
        driver_end.send((spec, threads))

        def wait(spec: TrialSpec, show: Show) -> None:
            try:
                while (message := driver_end.recv()) is not None:
                    if isinstance(message, Exception):
                        raise message
                    show(message)
            except (EOFError, ConnectionError):
                raise TargetError(
                    "the process that prepares the target ended unexpectedly. If it printed no error, perhaps the "
                    "memory is full."
                ) from None

        try:
            yield wait
        finally:
            process.kill()  # if this is a launcher, its forked process ends when the connection closes


def _is_cached(spec: TrialSpec) -> bool:
    try:
        Preparation(spec=target_spec_of(spec), cache=Cache(computing=False)).target()
    except NotCached:
        return False
    return True


# In the process -------------------------------------------------------------------------------------------------------


def serve(driver: Connection) -> None:
    """Prepare the target for the spec that the driver sends, with as many threads as it sends. Report the progress.

    The last message to the driver is an error, or None after success. The process ends when the driver closes the
    connection.
    """

    def send(message: object) -> None:
        try:
            driver.send(message)
        except OSError:
            os._exit(1)  # the driver does not wait any more

    try:
        spec, threads = driver.recv()
    except (EOFError, ConnectionError):
        return  # the driver was interrupted before it sent the spec
    threading.Thread(target=_end_with_driver, args=[driver], daemon=True).start()
    try:
        import torch

        torch.set_num_threads(threads)
        prepare_target(spec, on_progress=send)
        send(None)
    except Exception as error:
        if hasattr(error, "exit_code"):  # an error that a user can fix
            send(error)
            return
        traceback.print_exc()
        send(TargetError(f"the process that prepares the target failed: {type(error).__name__}: {error}"))


def _end_with_driver(driver: Connection) -> None:
    try:
        driver.recv()
    finally:
        os._exit(1)
