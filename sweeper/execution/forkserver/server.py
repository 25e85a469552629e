"""The fork server: a process that imports what workers need, and forks itself for each that Ray starts."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.execution.forkserver import launcher

_IMPORTED = (
    *("pandas", "pyarrow.fs", "fsspec", "jsonschema", "pydantic", "requests"),  # by Ray Tune
    *("torch", "torch._dynamo", "transformers.modeling_utils", "transformers.models.auto"),
    "rouge_score.rouge_scorer",
)
"""What takes long. Never Ray, which reads its environment when it is imported, and nothing of this project's: it would
bring plug-ins."""
VARIABLE = "SWEEPER_FORK_WORKERS"
"""Where it is 0 in the environment every worker is a new Python."""


def is_possible() -> bool:
    """Whether processes of this system may be forked after such imports, and nobody has asked for new ones."""
    return sys.platform == "linux" and os.environ.get(VARIABLE) != "0"


@contextlib.contextmanager
def fork_server(*, threads: int) -> Iterator[str]:
    """Have one while the block runs; yields the command that takes Python's place, ``py_executable`` to Ray.

    ``threads`` is what OpenMP may have in a worker, which it asks once, when it is imported: as many as Ray would say.
    """
    with tempfile.TemporaryDirectory(prefix="sweeper-") as folder:  # open to nobody else
        place = str(Path(folder) / "workers")
        command = [sys.executable, "-c", f"from {__name__} import serve; serve({place!r})"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
        ) as server:
            try:
                yield shlex.join([sys.executable, "-I", "-S", launcher.__file__, place])
            finally:
                server.kill()


def serve(place: str, imported: Sequence[str] = _IMPORTED) -> None:
    """Listen at ``place`` until standard input ends, which it does with the process that holds its other end.

    In a fork it returns when that has done what it was asked to.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Ray does for its own: Ctrl-C is the driver's
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(128)
        added = _import(imported)
        if "ray" in sys.modules:  # it cannot be forked into its own workers: each is a new Python then
            return
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            link, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _become(link, added)
                return
            link.close()
    shutil.rmtree(Path(place).parent, ignore_errors=True)  # a driver that was killed has not


def _import(names: Sequence[str]) -> dict[str, str]:
    """Import what is there; returns what that has changed in the environment."""
    before = dict(os.environ)
    gc.disable()  # else a fifth of the time goes into looking through what stays anyway
    for name in names:
        with contextlib.suppress(ImportError):  # a worker that needs it will say so
            importlib.import_module(name)
    gc.freeze()  # for good, in the forks, too: looking through it would make each a copy of its own
    gc.enable()
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def _become(link: socket.socket, added: Mapping[str, str]) -> None:
    """This process is a fork: do what is asked for at the other end of ``link``, as a new Python would.

    ``added`` to the environment is what its imports would add there, too.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link.settimeout(10.0)
    files = socket.recv_fds(link, 1, 3)[1]
    with link.makefile("rb") as reader:
        asked = json.loads(reader.readline())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update({**added, **asked["environment"]})
    _stand(asked)
    command: list[str] = asked["command"]
    sys.argv[:] = command
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(command[0]).parent)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # as it is seeded by an import; Python does so itself
    link.settimeout(None)
    link.sendall(b"+")  # from here on it is this process that does it; the link ends with it
    runpy.run_path(command[0], run_name="__main__")


def _stand(asked: dict[str, Any]) -> None:
    """Stand with the kernel as the one who asks does."""
    if asked["leads"]:
        os.setpgid(0, 0)
    for name, limits in asked["limits"].items():
        resource.setrlimit(getattr(resource, name), limits)
    os.setpriority(os.PRIO_PROCESS, 0, asked["nice"])
    Path("/proc/self/oom_score_adj").write_text(str(asked["oom_score_adj"]))
