"""Fork workers from a process that has already imported torch and transformers.

With the fork server, a sweep of two trials takes 12.6 s instead of 15.3 s (benchmarks/start_time.py, two cores).

1. The driver starts the server (:func:`serve`).
2. For each worker, Ray starts this file as a script. The script is called the launcher (:func:`launch`).
3. The launcher sends the worker's command line to the server, and the server forks the worker.
4. The launcher exits when the worker exits.

If the server does not respond, a normal Python interpreter replaces the launcher and runs the command line. The process
of :mod:`sweeper.execution.target_process` is forked in the same way. Each import in this file delays every worker.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TUNE_MODULES = ("pandas", "pyarrow.fs", "fsspec", "jsonschema", "pydantic", "requests")
_MODEL_MODULES = ("torch", "torch._dynamo", "transformers.modeling_utils", "transformers.models.auto")
_IMPORTED = (*_TUNE_MODULES, *_MODEL_MODULES, "rouge_score.rouge_scorer")
"""The slow imports that the server runs before it forks.

Ray is left out, because Ray reads environment variables on import. The project's own modules are left out, because they
load plug-ins on import.
"""
VARIABLE = "SWEEPER_FORK_WORKERS"
"""The environment variable that disables the fork server if its value is 0."""
_TIMEOUT = 20.0
"""Seconds that a launcher waits for the server. Must be less than the time that Ray waits for a worker."""


def is_possible() -> bool:
    """Return whether the fork server can be used: on Linux, unless the user has disabled it."""
    return sys.platform == "linux" and os.environ.get(VARIABLE) != "0"


@contextlib.contextmanager
def fork_server(*, threads: int) -> Iterator[Sequence[str]]:
    """Run the server while the block runs. Yield the launcher's command, to which Ray appends a worker's script.

    ``threads`` is the number of OpenMP threads of each worker. The number is set for the server, because libraries read
    it only on import.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sweeper-") as folder:  # only this user can access it
        socket_path = str(Path(folder) / "workers")
        program = f"from {__name__} import serve; serve({socket_path!r}, {_IMPORTED!r})"
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
        ) as server:
            try:
                yield [sys.executable, "-I", "-S", __file__, socket_path]
            finally:
                server.kill()


# The server ----------------------------------------------------------------------------------------------------------


def serve(socket_path: str, module_names: Sequence[str]) -> None:
    """Import the modules. Then fork a process for each request at the Unix socket with the path ``socket_path``.

    The server ends when its standard input closes, because the driver has exited. In each forked process, this function
    runs the requested command and returns.
    """
    import select
    import shutil

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # like Ray's processes: Ctrl-C is for the driver
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_path)
        listener.listen(128)
        imported_environment = _import(module_names)
        if "ray" in sys.modules:  # forks must not inherit Ray; without a server, each worker starts a new Python
            return
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies, because the server never waits for its forks
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                break
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _run_request(connection, imported_environment)
                return
            connection.close()
    shutil.rmtree(Path(socket_path).parent, ignore_errors=True)  # needed if the driver was killed


def _import(names: Sequence[str]) -> dict[str, str]:
    """Import the modules. Return the environment variables that the imports have set."""
    import importlib

    old_environment = dict(os.environ)
    gc.disable()  # garbage collection would take a fifth of the time
    for name in names:
        with contextlib.suppress(ImportError):  # a worker that needs the module reports the error
            importlib.import_module(name)
    gc.freeze()  # otherwise a garbage collection in a fork would copy the shared pages
    gc.enable()
    return {name: value for name, value in os.environ.items() if old_environment.get(name) != value}


def _run_request(connection: socket.socket, imported_environment: Mapping[str, str]) -> None:
    """Run the requested command in this forked process, with the launcher's streams, environment and limits."""
    import runpy

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.settimeout(10.0)
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as reader:
        request = json.loads(reader.readline())
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update({**imported_environment, **request["environment"]})
    if request["leads_group"]:
        os.setpgid(0, 0)
    for name, limits in request["limits"].items():
        resource.setrlimit(getattr(resource, name), limits)
    os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
    Path("/proc/self/oom_score_adj").write_text(str(request["oom_score_adj"]))
    command: list[str] = request["command"]
    sys.argv[:] = command
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(command[0]).parent)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # NumPy seeds itself only on import; Python reseeds its own generator after a fork
    connection.settimeout(None)
    try:
        connection.sendall(b"+")  # the launcher now waits until the connection closes, when this process exits
    except OSError:  # the launcher was killed, or has started a new Python process
        return
    runpy.run_path(command[0], run_name="__main__")


# The launcher --------------------------------------------------------------------------------------------------------


def launch(socket_path: str, command: list[str]) -> None:
    """Run the Python command line ``command`` in a fork of the server or, if no server responds, in this process."""
    connection = socket.socket(socket.AF_UNIX)
    if not _request_fork(connection, socket_path, command):
        os.execv(sys.executable, [sys.executable, *command])
    connection.settimeout(None)
    connection.recv(1)  # returns when the fork exits


def _request_fork(connection: socket.socket, socket_path: str, command: list[str]) -> bool:
    """Ask the server to run the command in a fork. Return whether it does; if False, no fork will run it later."""
    connection.settimeout(_TIMEOUT)
    try:
        connection.connect(socket_path)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        connection.sendall(json.dumps(_request(command)).encode() + b"\n")
        try:
            return bool(connection.recv(1))
        except TimeoutError:
            connection.shutdown(socket.SHUT_RD)  # from now on, confirmations fail; read one that arrived just before
            return bool(connection.recv(1))
    except OSError:
        return False


def _request(command: list[str]) -> dict[str, Any]:
    """Return a request to run the command with this process's folder, environment, priorities and limits."""
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "command": command,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "leads_group": os.getpgrp() == os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    }


if __name__ == "__main__":
    launch(sys.argv[1], sys.argv[2:])
