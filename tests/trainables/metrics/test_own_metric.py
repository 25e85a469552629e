"""The name and the direction of a new metric are checked, and its record is read without numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from trainables.metrics.metric import Cost, Metric

ONE = """
from trainables.metrics.metric import Cost, Metric

METRICS = (
    Metric(
        name="evenness",
        label="evenness",
        unit="AUC",
        ideal=0.25,
        of="forget",
        cost=Cost.FORWARD,
        formula="a quarter",
        citation="nobody",
        measure=lambda scores: 0.75,
    ),
)
"""
"""The content of a module trainables/metrics/evenness.py."""

IN_THE_PACKAGE = "import sys, trainables.metrics; trainables.metrics.__path__.append(sys.argv.pop(1))\n"
"""As if the folder's modules lay in the package."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, with these modules in the package of the metrics."""

    def run(program: str, **modules: str) -> subprocess.CompletedProcess[str]:
        for name, content in modules.items():
            (tmp_path / f"{name}.py").write_text(content)
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, "-c", IN_THE_PACKAGE + program, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)

    return run


@pytest.mark.parametrize(
    ("name", "program"),
    [("verbmem", "import trainables.metrics.registry"), ("distance", "import sweeper.store.columns")],
)
def test_the_name_of_another_metric_or_column_is_refused(run: Callable[..., Any], name: str, program: str) -> None:
    done = run(program, evenness=ONE.replace('"evenness"', f'"{name}"'))
    assert_names(done.stderr, f"name: {name}" if name == "verbmem" else f"column: {name}")


@pytest.mark.parametrize("given", [{}, {"direction": "max", "ideal": 0.5}])
def test_a_record_has_either_a_direction_or_an_ideal(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric x: .*direction.*ideal"):
        Metric(name="x", label="x", cost=Cost.FORWARD, formula="0", citation="", measure=lambda scores: 0.0, **given)


def test_the_command_line_reads_the_records_without_numpy(run: Callable[..., Any]) -> None:
    program = "from sweeper.cli.listing import _metrics; _metrics(); print({'numpy', 'torch'} & sys.modules.keys())"
    assert run(program).stdout.strip() == "set()"
