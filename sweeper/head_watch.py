"""Whether Ray's head still answers. Ray itself says nothing for a minute, and then ends the whole process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

_EVERY = 1.0  # seconds between two looks
_TIMES = 5  # looks in vain until the head counts as lost: a busy machine may miss one


@contextlib.contextmanager
def head_watched(on_loss: Callable[[str], None]) -> Iterator[None]:
    """Call ``on_loss``, in another thread, with the head's address when it has gone while the block runs."""
    import ray

    address = ray.get_runtime_context().gcs_address
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(address, over, on_loss), name="head watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(address: str, over: threading.Event, on_loss: Callable[[str], None]) -> None:
    missed = 0
    while not over.wait(_EVERY):
        missed = 0 if _answers(address) else missed + 1
        if missed == _TIMES:
            on_loss(address)
            return


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except OSError:
        return False
    return True
