"""Whether Ray's head still answers. Ray itself says nothing for a minute or more, and then may end the whole process.

Until then Ray holds the main thread in calls that nothing interrupts. So what is to be done before the process ends is
done by the thread that watches.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

from sweeper.execution.shutdown import is_interrupted

_EVERY = 1.0  # seconds between two looks
_SILENCE = 4.0  # seconds without an answer until the head counts as lost: a busy machine may miss one look
_RESTART = 120.0  # the same on a cluster, which may start its head anew
_PATIENCE = 5.0  # seconds for the main thread to leave what it is at


@contextlib.contextmanager
def head_watched(
    on_loss: Callable[[str], None], *, last_words: Callable[[], None], is_cluster: bool
) -> Iterator[Callable[[], None]]:
    """Where the head goes while the block runs, call ``on_loss`` with its address, which is to end the block.

    Then, whether the block has ended or not, ``last_words``, which are to end the process: with its head gone Ray
    cannot even be left. The head of a cluster is given time to come back, unless the sweep is to end anyway. Of one
    machine both processes are the head: the one that all ask, and the one that starts workers.

    The block gets what returns as soon as the head answers, for before calls that are not to be made without one. What
    it raises while the head does not answer is raised once that is certain: Ray's calls may notice the loss first, and
    fail in words that do not name it.
    """
    import ray

    over, lost = threading.Event(), threading.Event()
    addresses = [ray.get_runtime_context().gcs_address]
    if not is_cluster:
        addresses += [f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}" for node in ray.nodes()]

    def answering() -> None:
        while not (lost.is_set() or all(map(_answers, addresses))):
            time.sleep(_EVERY)
        if lost.is_set():
            watcher.join()

    def watch() -> None:
        answered = dict.fromkeys(addresses, time.monotonic())
        while time.monotonic() - min(answered.values()) < (
            _RESTART if is_cluster and not is_interrupted() else _SILENCE
        ):
            if over.wait(_EVERY):
                return
            answered |= {address: time.monotonic() for address in addresses if _answers(address)}
        lost.set()
        on_loss(min(answered, key=lambda address: answered[address]))
        over.wait(_PATIENCE)
        last_words()

    watcher = threading.Thread(target=watch, name="head watch", daemon=True)
    watcher.start()
    try:
        yield answering
    except Exception:
        answering()
        raise
    finally:
        over.set()
        if lost.is_set():
            watcher.join()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except OSError:
        return False
    return True
