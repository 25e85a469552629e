"""A space in which much applies under conditions only, and writers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from search_spaces import durable
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space

CONDITIONAL = Space(
    (
        Choice("method", ("gdiff", "npo", "simnpo", "ngdiff")),
        Choice("auto_lr", ("off", "on")),
        Number("lr", 1e-5, 1e-3, log=True),
        Number("c", 0.1, 0.995, when={"method": ("gdiff",)}, key="gdiff.c", log_to_one=True),
        Number("beta", 0.01, 1.0, log=True, when={"method": ("npo",)}, key="npo.beta"),
        Number("beta", 0.5, 5.5, when={"method": ("simnpo",)}, key="simnpo.beta"),
        Number("auto_lr_every", 1, 20, log=True, when={"auto_lr": ("on",), "method": ("gdiff", "ngdiff")}, whole=True),
        Choice("lora_rank", (None, 8), when={"auto_lr": ("off",)}),
    ),
    {"epochs": 15},
)


def kill_in_the_middle(script: str, folder: Path, *, after: float) -> None:
    """Run ``script`` in ``folder`` until it says it has begun, and ``after`` seconds more; then ``kill -9``."""
    environment = {**os.environ, "PYTHONPATH": str(Path(durable.__file__).parents[1])}
    command = [sys.executable, "-u", "-c", f"import search_spaces.durable\nprint('begun')\n{script}"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGKILL)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
