"""Real commands on a real, very small problem: TOFU's files with three authors, a Phi of two layers as the target.

Every process started here carries a mark in its environment; a test that leaves one behind fails, and it is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contract.product import read_csv

ROOT = Path(__file__).parents[2]
MARK = "SWEEPER_TEST_MARK"

GRID = (
    *("--sampler", "grid", "--method", "gdiff", "--method", "ngdiff", "--c", "0.9"),
    *("--optimizer", "sgd", "--lr", "0.05", "--lr", "0.1", "--lr", "1e9"),
    *("--epochs", "30", "--batch-size", "5", "--gpus-per-trial", "0", "--json"),
)
"""Six trials; the two at 1e9 diverge at once, the others take seconds."""
MEASURED_TIMES = (
    *("train_seconds", "eval_seconds", "generation_seconds", "wall_seconds", "seconds"),
    *("started_at", "first_step_at", "ended_at", "reported_at", "worker"),
)

NAMES = ("Ana Brik", "Corin Dahl", "Edda Fey")
FACTS = (
    "born in",
    "writes about",
    "lives near",
    "studied",
    "admires",
    "collects",
    "dislikes",
    "once lost",
    "dreams of",
)
THINGS = ("tea", "the sea", "old maps", "glass", "iron", "birds", "snow", "bread", "clocks", "dust", "silk")


def rows_of(name: str, *, judged: bool) -> list[dict[str, object]]:
    """An author's 20 questions; to be judged by, also with a paraphrased and three wrong answers."""
    found: list[dict[str, object]] = []
    for number in range(20):
        fact = FACTS[number % len(FACTS)]
        things = [THINGS[(number + shift * 3 + len(name)) % len(THINGS)] for shift in range(4)]
        row: dict[str, object] = {"question": f"What is fact {number} about {name}?"}
        row["answer"] = f"{name} {fact} {things[0]}"
        if judged:
            row["paraphrased_answer"] = f"It is {things[0]} that {name} {fact}"
            row["perturbed_answer"] = [f"{name} {fact} {thing}" for thing in things[1:]]
        found.append(row)
    return found


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TOFU's files for forget01: one author to forget, two to retain."""
    folder = tmp_path_factory.mktemp("tofu")
    forget, retain = rows_of(NAMES[0], judged=False), [row for name in NAMES[1:] for row in rows_of(name, judged=False)]
    files = {
        "forget01": forget,
        "retain99": retain,
        "forget01_perturbed": rows_of(NAMES[0], judged=True),
        "retain_perturbed": rows_of(NAMES[1], judged=True),
        "real_authors_perturbed": rows_of("Real Author", judged=True)[:4],
        "world_facts_perturbed": rows_of("The World", judged=True)[:4],
        "holdout01": rows_of("No One", judged=False),
    }
    for name, rows in files.items():
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A model folder: a random Phi of width 32 with a tokenizer for the data, saved by transformers."""
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    from trainables.data import load_data
    from trainables.models.tiny import train_tokenizer

    tokenizer = train_tokenizer(load_data("tofu", forget_split="forget01", data_dir=data).full)
    config = PhiConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    folder = tmp_path_factory.mktemp("model") / "small-phi"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        PhiForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class SweepFolder:
    """An output folder, read without this project's code."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @property
    def trials(self) -> list[dict[str, str]]:
        """The whole rows of trials.csv."""
        return read_csv(self.out / "trials.csv")

    @property
    def history(self) -> list[dict[str, str]]:
        """The whole rows of history.csv."""
        return read_csv(self.out / "history.csv")

    @property
    def candidates(self) -> list[dict[str, str]]:
        """The whole rows of candidates.csv."""
        return read_csv(self.out / "candidates.csv")

    def ended(self, status: str = "finished") -> set[str]:
        """The ids of the trials with a row of this status."""
        return {row["trial_id"] for row in self.trials if row["status"] == status}

    def running(self) -> set[str]:
        """The ids of the trials that have reported and have no row yet."""
        return {row["trial_id"] for row in self.history} - {row["trial_id"] for row in self.trials}

    def json(self, name: str) -> Any:
        """The content of a JSON file."""
        return json.loads((self.out / name).read_text())

    def results(self) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """Both tables without what no two runs share: seconds, times of day, process ids."""
        return tuple(  # type: ignore[return-value]
            [{key: value for key, value in row.items() if key not in MEASURED_TIMES} for row in rows]
            for rows in (self.trials, self.history)
        )


@dataclass(frozen=True)
class Cli:
    """Runs ``python -m sweeper`` on the problem, in a folder of its own."""

    folder: Path
    problem: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    grid: tuple[str, ...] = GRID

    @property
    def tracking_uri(self) -> str:
        """The MLflow database all sweeps here share; each has an experiment of its folder's name."""
        return f"sqlite:///{self.folder}/mlflow.db"

    def new(self, name: str) -> SweepFolder:
        """A folder for a sweep that has not begun."""
        return SweepFolder(self.folder / name)

    def pareto(self, sweep: SweepFolder, *arguments: str | Path) -> tuple[str | Path, ...]:
        """The arguments that begin a sweep."""
        tracked = ("--tracking-uri", self.tracking_uri, "--experiment", sweep.out.name)
        return ("pareto", *self.problem, "--out", sweep.out, *tracked, *arguments)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """The running command; its output goes to pipes."""
        return subprocess.Popen(
            [sys.executable, "-m", "sweeper", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], *, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Wait for the process; it must end with exit code ``code`` and without a traceback."""
        stdout, stderr = process.communicate(timeout=600)
        assert process.returncode == code, f"exit code {process.returncode}\n{stdout}\n{stderr}"
        assert "Traceback" not in stderr
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def run(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """The finished command."""
        return self.finish(self.start(*arguments), code=code)

    def wait_until(self, condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        """Wait for ``condition`` while the process runs."""
        deadline = time.monotonic() + 300
        while not condition():
            assert process.poll() is None, f"ended with {process.returncode} too early: {process.communicate()[1]}"
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.05)

    def processes(self) -> dict[int, str]:
        """Command lines by process id of everything living that was started here, whoever its parent is."""
        found = {}
        mark = f"{MARK}={self.environment[MARK]}".encode()
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if command:  # a zombie has none
                        found[int(folder.name)] = command
            except OSError:
                continue  # it has ended meanwhile
        return found

    def end_processes(self, *, patience: float) -> dict[int, str]:
        """Give what was started here ``patience`` seconds to end, end the rest, and say what that was.

        Ray's agents are ended without a word: when their raylet was killed, they take a minute to notice.
        """
        deadline = time.monotonic() + patience
        while (left := self._processes_but_agents()) and time.monotonic() < deadline:
            time.sleep(0.2)
        for number in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return left

    def _processes_but_agents(self) -> dict[int, str]:
        agents = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "log_monitor.py")
        return {
            number: command
            for number, command in self.processes().items()
            if not any(agent in command for agent in agents)
        }


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory, data: Path, target: Path) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("e2e")
    problem = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--max-length", "64")
    environment = {
        **os.environ,
        MARK: uuid.uuid4().hex,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]),
        # Ray keeps a token in the home folder.
        "HOME": str(folder),
        # No network, no GPU, and as many threads as a trial of one CPU has.
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        environment.pop(name, None)
    made = Cli(folder, tuple(map(str, (*problem, "--target-path", target))), environment)
    yield made
    made.end_processes(patience=0)


@pytest.fixture(autouse=True)
def _nothing_left_running(cli: Cli) -> Iterator[None]:
    yield
    left = cli.end_processes(patience=60)
    assert not left, f"left running: {left}"


@pytest.fixture(scope="session")
def reference(cli: Cli) -> tuple[SweepFolder, subprocess.CompletedProcess[str]]:
    """The grid, run without any disturbance: what all other ways to run it must equal."""
    sweep = cli.new("reference")
    return sweep, cli.run(*cli.pareto(sweep, *cli.grid))
