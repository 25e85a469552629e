"""``ui`` stops all its processes, and checks its options. A stand-in for MLflow starts a child process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.sweeper.conftest import wait_until

ROOT = Path(__file__).parents[3]
SERVER = """
import json, os, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
found = {"arguments": sys.argv[1:], "pids": [os.getpid(), worker.pid]}
found["jobs"] = os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"]
with open("started.part", "w") as file:
    json.dump(found, file)
os.rename("started.part", "started.json")
time.sleep(600)
"""


def lives(pid: str) -> bool:
    """Return whether the process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_closed_terminal_leaves_no_process_behind(tmp_path: Path) -> None:
    package = tmp_path / "stand-in" / "mlflow"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SERVER)
    Path("a.db").touch()
    environment = os.environ | {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "sweeper", "ui", "--tracking-uri", "sqlite:///a.db", "--port", "5055"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(Path("started.json").exists)
            found = json.loads(Path("started.json").read_text())
            uri = ["--backend-store-uri", "sqlite:///a.db"]
            quiet = ["--uvicorn-opts", "--log-level warning"]
            assert found["arguments"] == ["ui", *uri, "--port", "5055", "--workers", "1", *quiet]
            assert found["jobs"] == "false"
            assert all(map(lives, found["pids"]))
            process.send_signal(signal.SIGHUP)
            assert process.wait(240.0) == 130
            assert not any(map(lives, found["pids"]))
        finally:
            process.kill()
