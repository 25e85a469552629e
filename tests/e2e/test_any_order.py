"""After faults in any order, a sweep has the same results as without faults.

Each seed defines a sequence of faults: the sweep is started, a fault happens at a random moment, files may be damaged
while no driver runs, and the sweep is resumed until it is finished. ``FAULT_SEEDS`` selects the seeds:

    FAULT_SEEDS=0:1000 python -m pytest tests/e2e/test_any_order.py

"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from search_spaces.common.durable import is_locked
from tests.contract.product import Done, Sweep
from tests.e2e.conftest import GRID, Cli, small_disk, trainers
from tests.e2e.nodes import Nodes
from tests.e2e.test_interruption import assert_equals, assert_whole_in_mlflow

pytestmark = [pytest.mark.faults, pytest.mark.cluster, pytest.mark.slow, pytest.mark.ray]


FIRST, LAST = (int(word) for word in os.environ.get("FAULT_SEEDS", "8:18").split(":"))
MOST_FAULTS = 3
SHARE_ON_CLUSTER = 0.3
DRIVER_CODES = {0, 1, 130, -signal.SIGKILL}


@pytest.fixture(scope="module")
def nodes(cli: Cli) -> Iterator[Nodes]:
    made = Nodes(cli)
    yield made
    made.close()


@dataclass
class Stage:
    """A running command, and the parts that a fault can hit."""

    cli: Cli
    sweep: Sweep
    nodes: Nodes
    process: subprocess.Popen[str]

    @property
    def filler(self) -> Path:
        """The file that fills the disk of the sweep, if the sweep has a small disk of its own."""
        return self.sweep.out.parent / "filler"


# Faults of a running sweep ---------------------------------------------------------------------------------------


def send(number: signal.Signals) -> Callable[[Stage], None]:
    return lambda stage: stage.process.send_signal(number)


def kill_first(numbers: Iterable[int]) -> None:
    for number in list(numbers)[:1]:
        os.kill(number, signal.SIGKILL)


def kill_head(stage: Stage) -> None:
    kill_first(number for number, command in stage.cli.processes().items() if "gcs_server" in command)


def fill_disk(stage: Stage) -> None:
    """Fill the disk. The file is deleted when the command has ended."""
    with contextlib.suppress(OSError), stage.filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


def hold_tracker(stage: Stage) -> None:
    """Lock MLflow's database for 10 s. The sweep continues meanwhile."""
    connection = sqlite3.connect(stage.cli.tracking_uri.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(10)
        connection.execute("ROLLBACK")
    finally:
        connection.close()


Faults = Mapping[str, Callable[[Stage], None]]
ANYWHERE: Faults = MappingProxyType(
    {
        "Ctrl-C": send(signal.SIGINT),
        "SIGTERM": send(signal.SIGTERM),
        "SIGTERM to the group": lambda stage: os.killpg(stage.process.pid, signal.SIGTERM),
        "SIGHUP": send(signal.SIGHUP),
        "kill -9 of the driver": send(signal.SIGKILL),
        "kill -9 of a worker": lambda stage: kill_first([*trainers(stage.cli), *stage.nodes.workers()]),
        "MLflow's database locked": hold_tracker,
        "the disk full": fill_disk,
    }
)
HERE: Faults = MappingProxyType({**ANYWHERE, "kill -9 of Ray's head": kill_head})
ON_CLUSTER: Faults = MappingProxyType({**ANYWHERE, "a node lost": lambda stage: stage.nodes.lose_one()})


# Damage to the files while no driver runs ----------------------------------------------------------------------------


def torn(name: str) -> Callable[[Path, random.Random], None]:
    """Return a function that appends half a line, like a write that a power cut interrupted."""

    def tear(out: Path, chance: random.Random) -> None:
        if (out / name).is_file():
            with (out / name).open("a") as file:
                file.write("00005,half a li")

    return tear


def lost(name: str) -> Callable[[Path, random.Random], None]:
    def lose(out: Path, chance: random.Random) -> None:
        (out / name).unlink(missing_ok=True)

    return lose


def state_damaged(out: Path, chance: random.Random) -> None:
    """Overwrite a third of the saved state of an unfinished trial with zeros."""
    for path in sorted(out.glob("ray/*/*/checkpoint_*/state.pt"))[:1]:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(size // 3)
            file.write(bytes(size // 3))


def states_lost(out: Path, chance: random.Random) -> None:
    for path in out.glob("ray/*/*/checkpoint_*/state.pt"):
        path.unlink()


TABLES = ("trials.csv", "history.csv", "candidates.csv", "auto_lr.csv")
STILL: Mapping[str, Callable[[Path, random.Random], None]] = MappingProxyType(
    {
        **{f"{name} torn": torn(name) for name in ("events.jsonl", "trials.csv", "history.csv", "optuna.log")},
        **{f"{name} lost": lost(name) for name in (*TABLES, "optuna.log", "pareto.json", "report.html", "status.json")},
        "a state damaged": state_damaged,
        "states lost": states_lost,
    }
)


# The test -------------------------------------------------------------------------------------------------------------


def moment(sweep: Sweep, chance: random.Random) -> Callable[[], bool]:
    """Return a condition for the moment of the fault: the start, a number of reports, or a number of ended trials."""
    rows, reports = len(sweep.trials), len(sweep.history)
    wanted_reports, wanted_rows = reports + chance.randint(1, 60), rows + chance.randint(1, 4)
    return chance.choice(
        [
            lambda: is_locked(sweep.out),  # a killed driver may have left the file .lock
            lambda: len(sweep.history) >= wanted_reports,
            lambda: len(sweep.trials) >= wanted_rows,
        ]
    )


def run_until(
    cli: Cli,
    sweep: Sweep,
    nodes: Nodes,
    words: tuple[str | Path, ...],
    fault: Callable[[Stage], None] | None,
    chance: random.Random,
) -> tuple[int, bool]:
    """Run the command in a session of its own, with the fault at a random moment.

    Return the exit code, and whether the fault happened before the command ended.
    """
    process = cli.start_session(*words)
    stage, came = Stage(cli, sweep, nodes, process), False
    if fault is not None:
        come, deadline = moment(sweep, chance), time.monotonic() + 300
        while process.poll() is None and not come() and time.monotonic() < deadline:
            time.sleep(0.05)
        if came := process.poll() is None:
            fault(stage)
    _, stderr = process.communicate(timeout=600)
    stage.filler.unlink(missing_ok=True)
    code = process.returncode
    print(stderr[-600:] if code == 1 else "", end="")  # pytest shows the output if the test fails
    assert code in DRIVER_CODES, f"exit code {code}\n{stderr}"
    if code != -signal.SIGKILL:
        assert "Traceback" not in stderr, stderr
    assert cli.end_processes(patience=90) == {}
    return code, came


@pytest.fixture
def disk(cli: Cli) -> Iterator[Path]:
    """A folder on a small disk, or an ordinary folder if this user may not mount a disk."""
    folder = cli.folder / f"disk-{uuid.uuid4().hex[:8]}"
    with small_disk(folder, "100m"):
        yield folder


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_after_faults_in_any_order_the_results_equal_those_without_faults(
    cli: Cli, reference: tuple[Sweep, Done], nodes: Nodes, disk: Path, seed: int
) -> None:
    chance = random.Random(seed)
    sweep = cli.new(f"{disk.name}/story-{seed}")
    can_fill = disk.is_mount()
    words: tuple[str | Path, ...] = cli.pareto(sweep, *GRID)
    is_first = True
    print(f"FAULT_SEEDS={seed}:{seed + 1}")  # pytest shows the output if the test fails
    kept: dict[str, str] = {}

    def place() -> tuple[Faults, tuple[str, ...]]:
        """Choose where the trials run next. Return the faults that can happen there, and the options."""
        if chance.random() < SHARE_ON_CLUSTER:
            return ON_CLUSTER, ("--address", nodes.address)
        return HERE, () if words[0] == "pareto" else ("--address", "none")

    for _ in range(chance.randint(1, MOST_FAULTS)):
        faults, there = place()
        fault = chance.choice([name for name in faults if can_fill or name != "the disk full"])
        code, came = run_until(cli, sweep, nodes, (*words, *there), faults[fault], chance)
        assert came or not is_first, "the new sweep ended before the fault"
        is_first = False
        print(f"{fault}{' on the cluster' if faults is ON_CLUSTER else ''}: {code}, {len(sweep.trials)} rows")
        if (sweep.out / "sweep.json").is_file():
            words = ("resume", sweep.out, "--json")
            results = {row["trial_id"] for row in sweep.trials if row["status"] in ("finished", "diverged")}
            now = {name: line for name, line in sweep.lines().items() if name in results} if results else {}
            assert {name: now.get(name) for name in kept} == kept, "a finished trial is lost or ran twice"
            kept = now
            for damage in chance.sample(list(STILL), chance.randint(0, 2)):
                STILL[damage](sweep.out, chance)
                print(damage)

    _, there = place()
    assert run_until(cli, sweep, nodes, (*words, *there), None, chance) == (0, False)
    assert {name: sweep.lines()[name] for name in kept} == kept, "a finished trial is lost or ran twice"
    assert_equals(sweep, reference)
    assert_whole_in_mlflow(cli, sweep)
    assert sweep.json("pareto.json")["front"]
    assert not list(sweep.out.glob("ray/*/*/checkpoint_*")), "saved states of ended trials are left"
