"""Check whether Ray's head responds and whether trials run, and find Ray's logs.

After the loss of the head, Ray reports no error for a minute or more, and may then end the process. During this time,
Ray calls block the main thread and cannot be interrupted. Therefore another thread watches the head.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.words import duration
from sweeper.execution.placement import address_problem
from sweeper.execution.shutdown import is_interrupted
from sweeper.settings.resources import Resources

_INTERVAL = 1.0
"""Seconds between two checks of the head."""
_LOST_AFTER = 4.0
"""Seconds without a response after which the head counts as lost."""
_LOST_AFTER_ON_CLUSTER = 120.0
"""The same limit on a cluster. A cluster may restart its head node."""
_MAIN_THREAD_GRACE = 5.0
"""Seconds that the main thread gets to return after the head is lost."""
_STARVED_AFTER = 60.0
"""Seconds without a running trial after which a message is shown."""
_STARVATION_INTERVAL = 10.0


@contextlib.contextmanager
def head_watched(
    on_loss: Callable[[str], None], *, end_process: Callable[[], None], is_cluster: bool
) -> Iterator[Callable[[], None]]:
    """Watch Ray's head in another thread while the block runs.

    Yields a function that waits until the head responds. Call the function before a Ray call that needs the head.

    If the block raises an exception, this function waits until the head responds or is known to be lost, and only then
    passes the exception on. A lost head can cause a Ray error that does not mention the head.

    Args:
        on_loss: function that is called with the address of a lost head. It should raise an exception in the block.
        end_process: function that is called after ``on_loss``, when the block has ended or after 5 s. It must end the
            process, because Ray cannot be shut down without its head.
        is_cluster: whether Ray runs on a cluster, which may restart its head. The head then has more time to respond,
            unless the sweep is interrupted.
    """
    import ray

    stop, lost = threading.Event(), threading.Event()
    addresses = [ray.get_runtime_context().gcs_address]

    def wait_for_head() -> None:
        while not lost.is_set() and any(address_problem(address) for address in addresses):
            time.sleep(_INTERVAL)
        if lost.is_set():
            watcher.join()

    def time_limit() -> float:
        return _LOST_AFTER_ON_CLUSTER if is_cluster and not is_interrupted() else _LOST_AFTER

    def watch() -> None:
        answered_at = dict.fromkeys(addresses, time.monotonic())
        while time.monotonic() - min(answered_at.values()) < time_limit():
            if stop.wait(_INTERVAL):
                return
            for address in list(addresses):  # a copy, because the main thread adds addresses
                is_new = address not in answered_at
                if is_new or not address_problem(address):
                    answered_at[address] = time.monotonic()
        lost.set()
        on_loss(min(answered_at, key=lambda address: answered_at[address]))
        stop.wait(_MAIN_THREAD_GRACE)
        end_process()

    watcher = threading.Thread(target=watch, name="head watch", daemon=True)
    watcher.start()
    try:
        if not is_cluster:  # on a single machine, the head has two processes: GCS and raylet
            # This call hangs without a GCS, so the watcher is started before.
            addresses += [f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}" for node in ray.nodes()]
        yield wait_for_head
    except Exception:
        wait_for_head()
        raise
    finally:
        stop.set()
        if lost.is_set():
            watcher.join()


class StarvationCheck:
    """Detects that no trial has had a worker for a minute."""

    def __init__(self, resources: Resources, *, is_cluster: bool) -> None:
        self._resources = resources
        self._is_cluster = is_cluster
        self._last_running = self._last_check = time.monotonic()
        self._message = ""

    def message(self, *, is_running: bool) -> str:
        """Return a message if no trial has had a worker for a minute, otherwise "".

        The message contains the duration and the possible cause. ``is_running`` is true if a trial has a worker now.
        """
        now = time.monotonic()
        if is_running:
            self._last_running = now
            self._message = ""
        elif now - self._last_running >= _STARVED_AFTER and now - self._last_check >= _STARVATION_INTERVAL:
            self._last_check = now
            self._message = f"no trial has run for {duration(now - self._last_running)}: {self._reason()}"
        return self._message

    def _reason(self) -> str:
        import ray

        folder = ray_logs()
        logs = f"Ray's logs are in {folder}" if folder is not None else "see Ray's logs"
        if not self._is_cluster:
            return f"Ray does not start workers; {logs}"
        free, total = ray.available_resources(), ray.cluster_resources()
        required = {"CPU": self._resources.cpus, "GPU": self._resources.gpus}
        amounts = (
            f"{free.get(name, 0.0):g} of {total.get(name, 0.0):g} {name}s" for name in required if required[name]
        )
        enough = "if this is enough for a trial, Ray cannot start workers"
        return f"the cluster has {', '.join(amounts)} free; {enough}; {logs}"


def ray_logs() -> Path | None:
    """Return the folder of Ray's logs on this machine, or None if Ray is not running."""
    import ray

    node = ray._private.worker._global_node if ray.is_initialized() else None
    return Path(node.get_session_dir_path()) / "logs" if node is not None else None


def worker_logs(text: str) -> list[Path]:
    """Return this machine's log files of the dead worker whose process id is in Ray's error message ``text``."""
    process = re.search(r"^\s*pid[:=] ?(\d+)", text, re.MULTILINE) or re.search(r"\bpid=(\d+)", text)
    logs = ray_logs()
    if process is None or logs is None:
        return []
    return sorted(logs.glob(f"worker-*-{process[1]}.*"))
