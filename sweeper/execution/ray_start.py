"""Start Ray on this machine. On a busy machine, Ray's processes need longer than the 30 s that Ray waits for them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from search_spaces.common.messages import first_line
from sweeper.execution.placement import PlacementError

START_SECONDS = 300.0
"""Seconds for which an attempt waits until Ray's processes respond."""
_NOTICE_SECONDS = 20.0
_ATTEMPTS = 2
logger = logging.getLogger(__name__)


def start_ray(**options: Any) -> None:
    """Call ``ray.init`` with the options. If Ray's start fails, try a second time.

    Raises:
        PlacementError: both attempts failed. The message has the reason, the load of the machine, and what to do.
    """
    import ray

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with _notice(), _long_wait():
                ray.init(address="local", log_to_driver=False, logging_level=logging.ERROR, **options)
            return
        except Exception as error:  # Ray has no specific exception for a start that takes too long
            ray.shutdown()
            reason = first_line(error).rstrip(".")
            if "AF_UNIX" in str(error):
                raise PlacementError(
                    f"cannot start Ray on this machine: {reason}. The folder for temporary files has a long path: set "
                    "RAY_TMPDIR to a folder with a short path, such as RAY_TMPDIR=/tmp"
                ) from None
            if attempt == _ATTEMPTS:
                raise PlacementError(
                    f"cannot start Ray on this machine, in {_ATTEMPTS} attempts: {reason}. {_load()}. If other "
                    "programs use all CPUs, wait until they end, or start the sweep on another machine"
                ) from None
            logger.warning("Ray did not start (%s); %s; trying once more", reason, _load())


@contextmanager
def _notice() -> Iterator[None]:
    """Print a line if the block takes longer than :data:`_NOTICE_SECONDS`, and another line when such a block ends."""
    begin = time.monotonic()

    def show() -> None:
        logger.warning("Ray has not started after %.0f s; %s; still waiting", _NOTICE_SECONDS, _load())

    timer = threading.Timer(_NOTICE_SECONDS, show)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if (seconds := time.monotonic() - begin) > _NOTICE_SECONDS:  # otherwise, status would show the first line for good
        logger.warning("Ray has started after %.0f s", seconds)


@contextmanager
def _long_wait() -> Iterator[None]:
    """While the block runs, Ray waits :data:`START_SECONDS` for its processes, as long as they are alive.

    Ray's own limit of 30 s is not a setting, so the function that Ray polls is replaced by one that waits.
    """
    from ray._private import services

    original = services.get_node
    deadline = time.monotonic() + START_SECONDS

    def get_node(gcs_address: str, node_id: str) -> Any:
        while True:
            try:
                return original(gcs_address, node_id)
            except RuntimeError:
                if time.monotonic() > deadline or not _is_starting():
                    raise
            time.sleep(0.2)

    services.get_node = get_node
    try:
        yield
    finally:
        services.get_node = original


def _is_starting() -> bool:
    """Return whether the process that Ray waits for is alive."""
    children = psutil.Process().children()
    return any(child.name() == "raylet" and child.status() != psutil.STATUS_ZOMBIE for child in children)


def _load() -> str:
    return f"the load average is {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
