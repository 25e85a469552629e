"""Real commands on the data of the contract tests, with a small untrained Phi as the target.

Every process started here has a mark in its environment. A test that leaves a process running fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.problem import Problem, write_data
from tests.contract.product import Argument, Done, Product, Row, Sweep, untimed

GRID = (
    *("--sampler", "grid", "--method", "gdiff", "--method", "ngdiff", "--c", "0.9"),
    *("--optimizer", "sgd", "--lr", "0.05", "--lr", "0.1", "--lr", "1e9"),
    *("--epochs", "30", "--batch-size", "5", "--gpus-per-trial", "0", "--json"),
)
"""Six trials. The two with learning rate 1e9 diverge at once, the others take seconds."""
_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "log_monitor.py")
"""Ray's agents. They need a minute to notice that their raylet was killed."""


@dataclass(frozen=True)
class Cli(Product):
    """Runs ``python -m sweeper`` in a folder of its own. ``problem`` has the options that name the data and target."""

    problem: tuple[str, ...] = ()

    def new(self, name: str) -> Sweep:
        return Sweep(self.folder / name)

    def pareto(self, sweep: Sweep, *options: Argument) -> tuple[Argument, ...]:
        return super().pareto(self.problem, sweep.out, *options)

    def start_session(self, *arguments: Argument, **given: Any) -> subprocess.Popen[str]:
        """Start a command in a session of its own, as a batch system does. ``given`` goes to Popen."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
        command = [sys.executable, "-m", "sweeper", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, start_new_session=True, text=True, **pipes
        )

    def processes(self) -> dict[int, str]:
        """Return the command lines, by process id, of all living processes that were started here."""
        found = {}
        for number in super().processes():
            try:
                command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # the process has ended meanwhile
            if command.strip():  # a zombie has no command line
                found[number] = command.strip()
        return found

    def end_processes(self, *, patience: float = 0.0) -> dict[int, str]:
        """Wait at most ``patience`` seconds until the processes have ended. Kill the others, and return them."""
        deadline = time.monotonic() + patience
        while (left := self._without_agents()) and time.monotonic() < deadline:
            time.sleep(0.2)
        super().end_processes()
        return left

    def _without_agents(self) -> dict[int, str]:
        found = self.processes().items()
        return {number: command for number, command in found if not any(agent in command for agent in _AGENTS)}


def trainers(cli: Cli) -> list[int]:
    """Return the ids of the processes that run trials now."""
    return sorted(number for number, command in cli.processes().items() if "Trainable" in command)


def results(sweep: Sweep) -> list[list[Row]]:
    """Return the rows of both tables without durations, times of day and process ids, which differ between runs."""
    return [untimed(sweep.trials), untimed(sweep.history)]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Mount a file system of this size at a new folder. Yield False if this user may not mount one."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TOFU's files for forget01: one author to forget, two to retain."""
    folder = tmp_path_factory.mktemp("tofu") / "data"
    write_data(folder)
    return folder


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A model folder: a random Phi of width 32 with a tokenizer for the data, saved by transformers."""
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    from trainables.data import load_data
    from trainables.models.tiny import train_tokenizer

    tokenizer = train_tokenizer(load_data("tofu", forget_split="forget01", data_dir=data).full)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 128}
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2}
    folder = tmp_path_factory.mktemp("model") / "small-phi"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = PhiConfig(**sizes, **shape, bos_token_id=end, eos_token_id=end, pad_token_id=pad)
        PhiForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory, data: Path, target: Path) -> Iterator[Cli]:
    made = Cli.in_folder(tmp_path_factory.mktemp("e2e"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for commands such as "ray start"
    environment = {**made.environment, "PATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    made = replace(made, problem=Problem(data, target).options, environment=environment)
    yield made
    made.end_processes()


@pytest.fixture(autouse=True)
def _nothing_left_running(cli: Cli) -> Iterator[None]:
    yield
    left = cli.end_processes(patience=60)
    assert not left, f"left running: {left}"


@pytest.fixture(scope="session")
def reference(cli: Cli) -> tuple[Sweep, Done]:
    """The grid, run without a disturbance. All other ways to run the grid must have equal results."""
    sweep = cli.new("reference")
    return sweep, cli.run(*cli.pareto(sweep, *GRID))
