"""How much longer does a sweep take with attacks, and is the estimate of the plan right?

    python benchmarks/attack_cost.py [--rounds 3] [--attacks default] [-- OPTIONS OF pareto]

Sweeps without and with attacks alternate, with the target in a cache that both share; before, one sweep of each kind
fills the cache, so the attacks on the target are measured, too, in the first sweep with attacks only. The duration of
the attacks is the time from the end of the last trial to the last measurement in the event log, because the difference
of two sweeps depends on chance. The estimate is that of ``attack --dry-run`` for each sweep without attacks, which
knows how many models are stored.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from start_time import timed_sweep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attacks", default="default")
    parser.add_argument("options", nargs="*", help="options of pareto")
    arguments = parser.parse_args()
    command = ["pareto", "--confirm", "none", *arguments.options]
    commands = {"without": command, "with": [*command, "--attacks", arguments.attacks]}
    times: dict[str, list[float]] = {side: [] for side in commands}
    estimates, durations = [], []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        first = {side: _seconds(scratch, f"warm-{side}", words) for side, words in commands.items()}
        for number in range(arguments.rounds):
            for side, words in commands.items():
                times[side].append(_seconds(scratch, f"{side}-{number}", words))
                print(f"{side:8} {times[side][-1]:7.1f} s", flush=True)
            durations.append(_attack_seconds(scratch / f"with-{number}"))
            estimates.append(_estimate(scratch, f"without-{number}", arguments.attacks))
            print(f"attacks  {durations[-1]:7.1f} s, estimated {estimates[-1]:.1f} s", flush=True)
    without, attacked, duration, estimate = map(statistics.median, (*times.values(), durations, estimates))
    print(f"first sweeps, with an empty cache: {first['without']:.1f} s without, {first['with']:.1f} s with attacks")
    print(
        f"median of {arguments.rounds}: {without:.1f} s without, {attacked:.1f} s with: {attacked / without - 1:+.0%}"
    )
    print(f"attacks: {duration:.1f} s; estimated: {estimate:.1f} s")


def _seconds(scratch: Path, name: str, command: list[str]) -> float:
    started, ended, _ = timed_sweep(scratch, name, command)
    return ended - started


def _attack_seconds(out: Path) -> float:
    """Return the seconds from the end of the last trial of a sweep to its last measurement of a stored model."""
    events = [json.loads(line) for line in (out / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    last = {event["kind"]: float(event["time"]) for event in events}
    return last["metrics_measured"] - last["trial_ended"]


def _estimate(scratch: Path, name: str, attacks: str) -> float:
    """Return the duration of attacks in the plan for a stored sweep, in seconds. The target is attacked already."""
    folder = scratch / f"{name}-planned"
    shutil.copytree(scratch / name, folder)
    content = json.loads((folder / "sweep.json").read_text())
    attacked = json.loads((scratch / "warm-with" / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(content | {"baseline": attacked["baseline"]}))
    words = [sys.executable, "-m", "sweeper", "attack", str(folder), "--attacks", attacks, "--dry-run", "--json"]
    environment = os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")}
    plan = json.loads(subprocess.run(words, check=True, env=environment, capture_output=True).stdout)
    seconds: float = plan["seconds"]
    return seconds


if __name__ == "__main__":
    main()
