"""A forked worker has the state of a new Python process, and the server and the launchers always end."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeper.execution import fork_server as launcher
from sweeper.execution.fork_server import fork_server, is_possible
from tests.sweeper.conftest import wait_until

pytestmark = pytest.mark.skipif(not is_possible(), reason="workers are forked only on Linux")

SCRIPT = """
import json, os, resource, signal, sys, costly
state = {
    "process": os.getpid(), "imported by": costly.PROCESS, "name": __name__, "arguments": sys.argv, "path": sys.path,
    "folder": os.getcwd(), "environment": dict(os.environ), "input": sys.stdin.read(),
    "leads": os.getpgrp() == os.getpid(), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "oom": int(open("/proc/self/oom_score_adj").read()),
    "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
    "children": signal.getsignal(signal.SIGCHLD).name,
}
print(json.dumps(state), flush=True)
if "wait" in sys.argv:
    import time
    time.sleep(600)
if "fail" in sys.argv:
    raise ValueError("as asked")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a script, and with a module that records which process imported the module."""
    (tmp_path / "costly.py").write_text("import os\nPROCESS = os.getpid()\nos.environ['OF_COSTLY'] = 'yes'\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def serve(place: Path, *imported: str) -> subprocess.Popen[bytes]:
    code = f"from sweeper.execution.fork_server import serve; serve({str(place / 'socket')!r}, {imported!r})"
    environment = {**os.environ, "PYTHONPATH": modules(place), "OF_THE_SERVER": "1"}
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment)


@pytest.fixture
def serving(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with serve(place, "costly") as process:
        wait_until((place / "socket").exists)
        yield process
        process.kill()


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Return a function that starts the launcher as Ray does: with a script and its arguments."""
    given = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True, "preexec_fn": lower}
    given |= {
        "cwd": place / "elsewhere",
        "env": {"PATH": os.environ["PATH"], "ROOM": "12", "PYTHONPATH": modules(place)},
    }
    with contextlib.ExitStack() as stack:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-I", "-S", launcher.__file__, str(place / "socket"), str(place / "script.py")]
            process = stack.enter_context(subprocess.Popen([*command, *arguments], **given))
            stack.callback(process.kill)
            return process

        yield begin


def modules(place: Path) -> str:
    return f"{place}:{Path(__file__).parents[3]}"


def lower() -> None:
    """Set a process group, priorities and a file limit, as Ray does for its workers."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (123, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.nice(3)
    Path("/proc/self/oom_score_adj").write_text("777")


def state_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, errors = process.communicate("what is typed", timeout=240)
    assert printed, errors
    return dict(json.loads(printed))


def test_a_fork_has_the_state_of_a_new_python_process(
    start: Start, serving: subprocess.Popen[bytes], place: Path
) -> None:
    process = start("one", "two words")
    forked = state_of(process)
    assert forked.pop("imported by") == serving.pid
    assert forked.pop("process") not in (serving.pid, process.pid)
    serving.kill()
    serving.wait()
    process = start("one", "two words")
    fresh = state_of(process)  # no server responds any more
    assert fresh.pop("imported by") == fresh.pop("process") == process.pid
    assert forked == fresh
    assert forked["arguments"] == [str(place / "script.py"), "one", "two words"]
    expected = {"name": "__main__", "folder": str(place / "elsewhere"), "input": "what is typed"}
    assert expected.items() <= forked.items()
    assert {"ROOM": "12", "OF_COSTLY": "yes"}.items() <= forked["environment"].items()
    assert "OF_THE_SERVER" not in forked["environment"]
    assert (forked["leads"], forked["oom"]) == (True, 777)
    assert 123 in [soft for soft, _ in forked["limits"]]


@pytest.mark.usefixtures("serving")
def test_every_launcher_gets_its_own_fork_prints_its_errors_and_ends_with_it(start: Start) -> None:
    assert len({state_of(process)["process"] for process in [start() for _ in range(3)]}) == 3
    _, errors = start("fail").communicate("", timeout=240)
    assert errors.rstrip().endswith("ValueError: as asked")
    process = start("wait")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    forked = int(json.loads(process.stdout.readline())["process"])
    assert process.poll() is None
    os.kill(forked, signal.SIGKILL)
    process.wait(timeout=240)
    wait_until(lambda: not psutil.pid_exists(forked))  # and no zombie is left


@pytest.mark.parametrize("answer", ["none", "an end"])
def test_without_an_answer_from_the_server_the_launcher_becomes_a_new_python_process(
    start: Start, place: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer == "none":  # as if the server imported for longer than a launcher waits
        impatient = place / "impatient.py"
        impatient.write_text(Path(launcher.__file__).read_text().replace("_TIMEOUT = 20.0", "_TIMEOUT = 0.2"))
        monkeypatch.setattr(launcher, "__file__", str(impatient))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        listener.listen()
        process = start()
        link, _ = listener.accept()
        if answer == "an end":
            link.recv(1)
        else:
            wait_until(lambda: "impatient" not in Path(f"/proc/{process.pid}/cmdline").read_text())
        link.close()
        assert state_of(process)["process"] == process.pid


def test_the_server_ends_when_its_driver_is_killed(place: Path) -> None:
    code = """
import time
from sweeper.execution import fork_server
fork_server._IMPORTED = ("json",)
with fork_server.fork_server(threads=1) as python:
    print(python[-1], flush=True)
    time.sleep(600)
"""
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": modules(place)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as driver:
        assert driver.stdout is not None
        socket_file = Path(driver.stdout.readline().rstrip())
        try:
            (server,) = psutil.Process(driver.pid).children()
            wait_until(socket_file.exists)
        finally:
            driver.kill()
    server.wait(timeout=240)
    assert not socket_file.parent.exists()


def test_the_server_ends_with_the_block_and_only_its_user_can_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # tests/conftest.py sets it
    with fork_server(threads=3) as python:
        socket_file = Path(python[-1])
        assert socket_file.parent.stat().st_mode & 0o777 == 0o700
        wait_until(socket_file.exists)
        (server,) = [child for child in psutil.Process().children() if str(socket_file) in " ".join(child.cmdline())]
        assert server.environ()["OMP_NUM_THREADS"] == "3"
    assert not server.is_running()
    assert not socket_file.parent.exists()


def test_a_server_that_imported_ray_forks_no_worker(place: Path, start: Start) -> None:
    (place / "ray.py").touch()
    with serve(place, "costly", "ray") as process:
        assert process.wait(timeout=240) == 0
    fresh = start()
    assert state_of(fresh)["process"] == fresh.pid


@pytest.mark.slow
def test_what_the_server_imports_exists_and_does_not_import_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the server would end without a message, or each worker would import the module again."""
    monkeypatch.setenv("SWEEPER_FORK_WORKERS", "0")
    assert not is_possible(), "the variable disables the fork server"
    code = """
import importlib, sys
from sweeper.execution.fork_server import _IMPORTED
for name in _IMPORTED:
    importlib.import_module(name)
print("ray" in sys.modules, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.split() == ["False", "True"]
