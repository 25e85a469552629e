"""Does another program on the machine slow fine-tuning, trials and evaluation more than it must?

    python benchmarks/busy_machine.py [--rounds 3] [--busy 0 3] [--commands target unlearn evaluate pareto]

Runs `target`, `unlearn`, `evaluate` and a sweep of two trials on the demo's model, alone and beside busy processes. The
settings alternate: the project's own choice (a user gives nothing), spinning threads on all cores (the default of
torch), sleeping threads on all cores, and one thread; for the sweep, Ray's own priority of workers instead. Prints the
median wall-clock seconds of a command, and the ratio to the best of the other settings.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CORES = str(os.cpu_count())
OURS = "own choice"
SETTINGS: dict[str, dict[str, str]] = {
    OURS: {},
    "spinning": {"OMP_NUM_THREADS": CORES, "OMP_WAIT_POLICY": "ACTIVE"},
    "sleeping": {"OMP_NUM_THREADS": CORES, "OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
PRIORITIES: dict[str, dict[str, str]] = {OURS: {}, "Ray's priority": {"RAY_worker_niceness": "15"}}
SWEEP = ["pareto", "--method", "ngdiff", "--trials", "2", "--epochs", "5", "--sampler", "random", "--confirm", "none"]
COMMANDS: dict[str, list[str]] = {
    "target": ["target", "--target-epochs", "5"],
    "unlearn": ["unlearn", "--method", "ngdiff", "--epochs", "3"],
    "evaluate": ["evaluate", "--model", "tiny-phi"],
    "pareto": [*SWEEP, "--scheduler", "none", "--target-epochs", "5"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 3], help="numbers of busy processes")
    parser.add_argument("--commands", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        target = run([*COMMANDS["target"]], folder, "shared", {}).stdout.splitlines()[0]
        for busy in arguments.busy:
            with busy_processes(busy):
                for name in arguments.commands:
                    command = COMMANDS[name]
                    settings = PRIORITIES if name == "pareto" else SETTINGS
                    times: dict[str, list[float]] = {setting: [] for setting in settings}
                    for number in range(arguments.rounds):
                        for setting, variables in settings.items():
                            words = [*command, "--model-path", target] if name == "evaluate" else command
                            words = [*words, "--target-epochs", "5"] if name == "unlearn" else words
                            cache = f"{busy}-{number}-{setting}" if name == "target" else "shared"
                            start = time.perf_counter()
                            run(words, folder, cache, variables)
                            times[setting].append(time.perf_counter() - start)
                    show(name, busy, times)


def run(command: list[str], folder: Path, cache: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment |= {"XDG_CACHE_HOME": str(folder / cache), **variables}
    words = [sys.executable, "-m", "sweeper", *command]
    return subprocess.run(words, check=True, env=environment, cwd=folder, capture_output=True, text=True)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that always need a CPU. First wait a minute, so that the load average includes them."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(60.0 if count else 0.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def show(name: str, busy: int, times: dict[str, list[float]]) -> None:
    medians = {setting: statistics.median(values) for setting, values in times.items()}
    best = min(value for setting, value in medians.items() if setting != OURS)
    cells = ", ".join(f"{setting} {value:.1f} s" for setting, value in medians.items())
    print(f"{name}, {busy} busy: {cells}; own choice / best of the others {medians[OURS] / best:.2f}", flush=True)


if __name__ == "__main__":
    main()
