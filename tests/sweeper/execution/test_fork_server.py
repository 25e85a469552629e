"""A forked worker does what a new Python would do, and no process is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeper.execution import fork_server as launcher
from sweeper.execution.fork_server import fork_server, is_possible
from tests.sweeper.conftest import wait_until

pytestmark = pytest.mark.skipif(not is_possible(), reason="workers are forked on Linux alone")

SCRIPT = """
import json, os, resource, signal, sys, costly
told = {
    "process": os.getpid(), "imported by": costly.PROCESS, "name": __name__, "arguments": sys.argv, "path": sys.path,
    "folder": os.getcwd(), "environment": dict(os.environ), "input": sys.stdin.read(),
    "leads": os.getpgrp() == os.getpid(), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "oom": int(open("/proc/self/oom_score_adj").read()),
    "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
    "children": signal.getsignal(signal.SIGCHLD).name,
}
print(json.dumps(told), flush=True)
if "wait" in sys.argv:
    import time
    time.sleep(600)
if "fail" in sys.argv:
    raise ValueError("as asked")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a script, and with a module that says which process has imported it."""
    (tmp_path / "costly.py").write_text("import os\nPROCESS = os.getpid()\nos.environ['OF_COSTLY'] = 'yes'\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def serving(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    code = f"from sweeper.execution.fork_server import serve; serve({str(place / 'socket')!r}, ['costly'])"
    environment = {**os.environ, "PYTHONPATH": modules(place), "OF_THE_SERVER": "1"}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment) as process:
        wait_until((place / "socket").exists)
        yield process
        process.kill()


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Start the launcher as Ray does: with the script to run and its arguments."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", launcher.__file__, str(place / "socket"), str(place / "script.py")]
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=place / "elsewhere",
            env={"PATH": os.environ["PATH"], "ROOM": "12", "PYTHONPATH": modules(place)},
            preexec_fn=lower,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def modules(place: Path) -> str:
    return f"{place}:{Path(__file__).parents[3]}"


def lower() -> None:
    """Stand behind other processes, in a group of its own and with fewer files, as Ray's workers do."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (123, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.nice(3)
    Path("/proc/self/oom_score_adj").write_text("777")


def told(process: subprocess.Popen[str], text: str = "what is typed") -> dict[str, Any]:
    printed, errors = process.communicate(text, timeout=240)
    assert printed, errors
    return dict(json.loads(printed))


def is_alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.usefixtures("serving")
def test_a_fork_does_what_a_new_python_does_but_for_imports(
    start: Start, serving: subprocess.Popen[bytes], place: Path
) -> None:
    process = start("one", "two words")
    forked = told(process)
    assert forked.pop("imported by") == serving.pid
    assert forked.pop("process") not in (serving.pid, process.pid)
    serving.kill()
    serving.wait()
    process = start("one", "two words")
    fresh = told(process)  # nobody answers any more
    assert fresh.pop("imported by") == fresh.pop("process") == process.pid
    assert forked == fresh
    assert forked["arguments"] == [str(place / "script.py"), "one", "two words"]
    assert (forked["name"], forked["folder"], forked["path"][0]) == ("__main__", str(place / "elsewhere"), str(place))
    assert {**forked["environment"], "ROOM": "12", "OF_COSTLY": "yes"} == forked["environment"]
    assert "OF_THE_SERVER" not in forked["environment"]
    assert (forked["input"], forked["leads"], forked["oom"]) == ("what is typed", True, 777)
    assert forked["nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert 123 in [soft for soft, _ in forked["limits"]]


@pytest.mark.usefixtures("serving")
def test_every_launcher_gets_a_fork_of_its_own_and_an_error_is_printed_where_it_looks(start: Start) -> None:
    assert len({told(process)["process"] for process in [start() for _ in range(5)]}) == 5
    _, errors = (process := start("fail")).communicate("", timeout=240)
    assert errors.rstrip().endswith("ValueError: as asked")
    assert process.returncode == 0  # who looks at a worker of Ray's asks its socket, not its launcher


@pytest.mark.usefixtures("serving")
def test_a_launcher_ends_with_its_fork(start: Start) -> None:
    process = start("wait")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    forked = int(json.loads(process.stdout.readline())["process"])
    assert process.poll() is None
    os.kill(forked, signal.SIGKILL)
    process.wait(timeout=240)
    wait_until(lambda: not Path(f"/proc/{forked}").exists())  # and no zombie is left


@pytest.mark.parametrize("answer", ["none", "an end"])
def test_a_server_that_does_not_answer_costs_a_new_python(
    start: Start, place: Path, answer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if answer == "none":  # it imports for longer than a launcher waits
        impatient = tmp_path / "impatient.py"
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
        assert told(process)["process"] == process.pid


def test_the_server_ends_when_its_driver_is_killed(place: Path) -> None:
    quick = "from sweeper.execution import fork_server\ndef serve(place): fork_server.serve(place, ['json'])\n"
    (place / "quick.py").write_text(quick)
    code = """
import time
from sweeper.execution.fork_server import fork_server
with fork_server(threads=1, module="quick") as python:
    print(python, flush=True)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": modules(place)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as driver:
        assert driver.stdout is not None
        socket_file = Path(shlex.split(driver.stdout.readline())[-1])
        try:
            (server,) = map(int, Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split())
            wait_until(socket_file.exists)
        finally:
            driver.kill()
    wait_until(lambda: not is_alive(server))
    assert not socket_file.parent.exists()


def test_the_server_ends_with_the_block_and_is_closed_to_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # tests/conftest.py sets it
    with fork_server(threads=3) as python:
        *_, socket_file = shlex.split(python)
        folder = Path(socket_file).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        wait_until(Path(socket_file).exists)
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        found = [int(one) for one in children if socket_file in Path(f"/proc/{one}/cmdline").read_text()]
        assert len(found) == 1
        assert b"OMP_NUM_THREADS=3" in Path(f"/proc/{found[0]}/environ").read_bytes().split(b"\0")
    assert not is_alive(found[0])
    assert not folder.exists()


def test_who_has_imported_ray_forks_nothing(place: Path, start: Start) -> None:
    (place / "ray.py").write_text("")
    code = f"from sweeper.execution.fork_server import serve; serve({str(place / 'socket')!r}, ['costly', 'ray'])"
    environment = {**os.environ, "PYTHONPATH": modules(place)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment) as process:
        assert process.wait(timeout=240) == 0
    assert told(fresh := start())["process"] == fresh.pid


@pytest.mark.slow
def test_what_the_server_imports_exists_and_does_not_import_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the server would end at its own assertion, unseen, or each worker would import it again."""
    monkeypatch.setenv("SWEEPER_FORK_WORKERS", "0")
    assert not is_possible(), "it can be switched off"
    code = """
import importlib, sys
from sweeper.execution.fork_server import _IMPORTED
for name in _IMPORTED:
    importlib.import_module(name)
print("ray" in sys.modules, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.split() == ["False", "True"]
