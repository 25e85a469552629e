"""Fine-tune a new sweep's target in its own process, while Ray starts in the driver.

Ray's start and its imports take five seconds, in which one process could not also train: Python's global lock would
stop the training. The driver also keeps no weights, and no GPU memory, because its process never trains.
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
from trainables.target.cache import Cache, is_made
from trainables.target.finetune import TargetError
from trainables.target.target_spec import target_spec_of


@contextmanager
def target_process(spec: TrialSpec) -> Iterator[FillCache | None]:
    """Start to fine-tune the target for ``spec``, and end the process with the block.

    Yields:
        A function that waits until the target is in the cache. It calls its second argument with each progress, and
        raises the error of the process, or TargetError if the process was killed. None if nothing must be trained.
    """
    if os.name != "posix" or not _must_train(spec):
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
                cause = "memory is short, or somebody killed it" if code == -signal.SIGKILL else f"exit code {code}"
                raise TargetError(f"the process that fine-tunes the target ended too early ({cause})") from None

        try:
            yield wait
        finally:
            process.kill()


def _must_train(spec: TrialSpec) -> bool:
    target_spec = target_spec_of(spec)
    return target_spec.target_path is None and not is_made(Cache().model(target_spec.trained_key))


def serve(descriptor: int) -> None:
    """Prepare the target for the spec that the driver sends. Send progress, and at the end None or the user's error."""
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
