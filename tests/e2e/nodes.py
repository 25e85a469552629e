"""Clusters of several nodes on this machine. Each node is a command in a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.contract.product import MARK
from tests.e2e.conftest import Cli, trainers


@contextmanager
def terminal(typed: str, environment: dict[str, str], folder: Path) -> Iterator[None]:
    """Start a node in the background, as in a terminal of its own. Ctrl-C ends the node.

    On a busy machine, Ray's start fails after half a minute. It is then repeated.
    """
    log = folder / f"node{len(list(folder.glob('node*.log')))}.log"
    for _ in range(6):
        with log.open("w") as output:
            given = {"stdout": output, "stderr": output, "cwd": folder, "start_new_session": True}
            process = subprocess.Popen(["bash", "-ec", typed], env=environment, **given)
        while process.poll() is None and "Ray runtime started" not in log.read_text():
            time.sleep(0.2)
        if process.poll() is None:
            break
    assert process.poll() is None, log.read_text()
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=120)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Nodes:
    """A cluster of two nodes with a CPU each, started by the first call of ``address``. The second node can be lost."""

    def __init__(self, cli: Cli) -> None:
        free = {**cli.environment, "RAY_AUTH_MODE": "disabled"}
        self._port = free_port()
        self._marked = [replace(cli, environment={**free, MARK: uuid.uuid4().hex}) for _ in range(2)]
        self._stack = ExitStack()

    @property
    def address(self) -> str:
        """The address of the cluster. Nodes that do not run are started first."""
        starts = (f"--head --port={self._port} --include-dashboard=false", f"--address=127.0.0.1:{self._port}")
        for start, node in zip(starts, self._marked, strict=True):
            if not self.raylets(node):
                typed = f"ray start {start} --num-cpus=1 --block"
                folder = Path(tempfile.mkdtemp(dir=node.folder))
                self._stack.enter_context(terminal(typed, node.environment, folder))
        return f"127.0.0.1:{self._port}"

    @staticmethod
    def raylets(node: Cli) -> list[int]:
        return [number for number, command in node.processes().items() if "raylet/raylet" in command]

    def workers(self) -> list[int]:
        """Return the ids of the processes that run trials now, on both nodes."""
        return [number for node in self._marked for number in trainers(node)]

    def lose_one(self) -> None:
        """Kill all processes of the second node, as a power cut does."""
        self._marked[1].end_processes(patience=0)

    def close(self) -> None:
        self._stack.close()
        for node in self._marked:
            node.end_processes(patience=10)
