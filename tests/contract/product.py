"""The product as its users see it: the command ``python -m sweeper`` and the files it leaves behind."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARK = "SWEEPER_CONTRACT_MARK"
"""Every process that a test starts carries this environment variable, so that all of them can be found and ended."""
PATIENCE = 300.0
"""Seconds after which a test gives up. Generous, because no test asserts a duration."""

Row = dict[str, str]
Argument = str | Path


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The only JSON object on stdout. Anything else there, such as a log line, is an error."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict), self.stdout
        return found

    @property
    def resume_command(self) -> list[str]:
        """The arguments of the resume command that was printed on stderr."""
        (folder, *_) = re.findall(r"sweeper resume (\S+)", self.stderr)
        return ["resume", folder.strip("'\"`.,;:)")]


@dataclass(frozen=True)
class Product:
    """Runs commands in a folder of their own; ``environment`` is all they inherit."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def in_folder(cls, folder: Path, *, cache: Path | None = None) -> Product:
        """Commands without network and GPU, with a home and (unless given) a cache of their own, from this checkout."""
        environment = {
            **os.environ,
            MARK: uuid.uuid4().hex,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "XDG_CACHE_HOME": str(cache or folder / "cache"),
            "HOME": str(folder),
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }
        for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            environment.pop(name, None)
        return cls(folder, environment)

    @property
    def cache(self) -> Path:
        """The folder of the project in the cache."""
        return Path(self.environment["XDG_CACHE_HOME"]) / "sweeper"

    @property
    def tracking_uri(self) -> str:
        """The MLflow database of this folder's sweeps."""
        return f"sqlite:///{self.folder}/mlflow.db"

    def pareto(self, problem: Sequence[str], out: Path, *options: Argument) -> tuple[Argument, ...]:
        """The arguments of a new sweep; its MLflow experiment has the name of its folder."""
        tracking = ("--tracking-uri", self.tracking_uri, "--experiment", out.name)
        return ("pareto", *problem, "--out", out, *tracking, *options)

    def start(self, *arguments: Argument, **environment: str) -> subprocess.Popen[str]:
        """A command that runs in the background and hears Ctrl-C, even if the shell that runs the tests ignores it."""
        return subprocess.Popen(
            [sys.executable, "-m", "sweeper", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def finish(self, process: subprocess.Popen[str], *, code: int = 0) -> Done:
        """Wait for a command. It must end with exit code ``code`` and without a traceback."""
        stdout, stderr = process.communicate(timeout=600)
        assert process.returncode == code, f"exit code {process.returncode}, not {code}\n{stdout}\n{stderr}"
        assert "Traceback" not in stdout + stderr, stderr
        return Done(process.returncode, stdout, stderr)

    def run(self, *arguments: Argument, code: int = 0, **environment: str) -> Done:
        """A finished command."""
        return self.finish(self.start(*arguments, **environment), code=code)

    def processes(self) -> list[int]:
        """The ids of all living processes that commands of this folder started, whoever their parent is."""
        mark = f"{MARK}={self.environment[MARK]}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # a process that ended meanwhile
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def end_processes(self, *, patience: float = 0.0) -> None:
        """Wait until the processes have ended by themselves, ``patience`` seconds at most, and kill the others."""
        deadline = time.monotonic() + patience
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        for number in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


class Sweep:
    """A sweep's folder, read with nothing but csv and json."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @property
    def trials(self) -> list[Row]:
        return read_csv(self.out / "trials.csv")

    @property
    def history(self) -> list[Row]:
        return read_csv(self.out / "history.csv")

    @property
    def candidates(self) -> list[Row]:
        return read_csv(self.out / "candidates.csv")

    @property
    def pareto(self) -> Any:
        return self.json("pareto.json")

    def json(self, name: str) -> Any:
        return json.loads((self.out / name).read_text())

    def ids(self, *status: str) -> list[str]:
        """The ids of the trials with one of these statuses; of all trials if no status is given."""
        return [row["trial_id"] for row in self.trials if not status or row["status"] in status]

    def lines(self) -> dict[str, str]:
        """The lines of trials.csv as they are, by trial id."""
        path = self.out / "trials.csv"
        lines = path.read_text().splitlines()[1:] if path.is_file() else []
        return {line.partition(",")[0]: line for line in lines}

    def unfinished(self) -> set[str]:
        """The ids of the trials that have reported an epoch and have not ended."""
        return {row["trial_id"] for row in self.history} - set(self.ids())

    def candidate(self, trial_id: str, epoch: float) -> Row:
        """The row of an epoch in candidates.csv."""
        (row,) = [row for row in self.candidates if (row["trial_id"], float(row["epoch"])) == (trial_id, epoch)]
        return row

    def is_checkpoint(self, named: str, relative: str, *, cwd: Path) -> bool:
        """Whether a path that a command printed is the checkpoint with this path relative to the sweep's folder."""
        return (self.out / relative).resolve() in {(cwd / named).resolve(), (self.out / named).resolve()}


@dataclass(frozen=True)
class Finished:
    """A finished sweep, and the command that ran it."""

    product: Product
    sweep: Sweep
    done: Done


def read_csv(path: Path) -> list[Row]:
    """The whole lines of a CSV file that may be growing; an empty list if it does not exist yet."""
    if not path.is_file():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def untimed(rows: list[Row]) -> list[Row]:
    """Rows without what no two runs share: durations, times of day, process ids."""
    return [{name: value for name, value in row.items() if not is_measured_time(name)} for row in rows]


def is_measured_time(column: str) -> bool:
    return column.endswith(("seconds", "_at")) or column == "worker"


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for a condition, while the process (if any) runs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process is not None and process.poll() is not None:
            stdout, stderr = process.communicate()
            raise AssertionError(f"ended with exit code {process.returncode} too early\n{stdout}\n{stderr}")
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
