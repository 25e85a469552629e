"""To add a metric is to write one module with its record: everything else is derived from it, as for this toy."""

from __future__ import annotations

import json
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
        name="brevity",
        label="brevity of the answers",
        unit="1 / words",
        direction="max",
        of="retain",
        threshold={"share": 0.5},
        sets=("tofu",),
        cost=Cost.FORWARD,
        formula="1 / words",
        citation="nobody",
        measure=lambda scores: 1.0 / scores.losses("retain").size,
    ),
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
"""The content of trainables/metrics/brevity.py."""

IN_THE_PACKAGE = "import sys, trainables.metrics; trainables.metrics.__path__.append(sys.argv.pop(1))\n"
"""As if the folder's modules lay in the package."""

EVERYWHERE = """
import json
from types import SimpleNamespace

import numpy as np
from click.testing import CliRunner

from sweeper.cli.main import main
from sweeper.store.columns import HISTORY_COLUMNS, HISTORY_METRICS, METRIC_COLUMNS, OUTCOME_METRICS, TRIAL_COLUMNS
from sweeper.store.columns import column_dictionary
from sweeper.settings.objectives import parse_objectives, with_objectives
from trainables.data import load_data
from trainables.scoring.chosen_metrics import chosen_metrics
from trainables.scoring.measured import values_of
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems

tables = (TRIAL_COLUMNS, HISTORY_COLUMNS, METRIC_COLUMNS, OUTCOME_METRICS, HISTORY_METRICS)
objectives = parse_objectives("brevity:max,evenness:min")
data = load_data("authors")
names = chosen_metrics(("tofu", "evenness", "evenness_distance"), data)
scores = SimpleNamespace(losses=lambda part: np.zeros(4))
own = ("brevity", "evenness", "evenness_distance")
print(json.dumps({
    "columns": [[name for name in table if name in own] for table in tables],
    "dictionary": {name: column_dictionary(random_guess=7.0, unit="token")[name] for name in own},
    "objectives": [item.to_dict(7.0) for item in objectives],
    "measured beside": with_objectives((), objectives),
    "problems": trial_problems(TrialSpec(metrics=("brevity",))),
    "of the data": [name for name in names if name in own],
    "values": values_of(own, scores),
    "listed": [row for row in json.loads(CliRunner().invoke(main, ["list", "metrics", "--json"]).stdout)
               if row["name"] in own],
}))
"""


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


def test_a_record_is_all_that_a_metric_needs(run: Callable[..., Any]) -> None:
    done = run(EVERYWHERE, brevity=ONE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = ["brevity", "evenness", "evenness_distance"]
    assert found["columns"] == [own] * 5
    assert found["dictionary"]["brevity"] == {
        "role": "metric",
        "label": "brevity of the answers",
        "unit": "1 / words",
        "direction": "max",
        "bounds": [0.0, 1.0],
        "of": "retain",
        "threshold": {"share": 0.5},
    }
    assert found["dictionary"]["evenness"]["ideal"] == 0.25
    assert found["dictionary"]["evenness_distance"]["bounds"] == [0.0, 0.25]
    assert [(item["column"], item["direction"], item["label"]) for item in found["objectives"]] == [
        ("brevity", "max", "brevity of the answers (1 / words)"),
        ("evenness_distance", "min", "evenness, distance from 0.25 (AUC)"),
    ]
    assert found["measured beside"] == ["default", *own]
    assert found["problems"] == []
    assert found["of the data"] == own
    assert found["values"] == {"brevity": 0.25, "evenness": 0.75, "evenness_distance": 0.5}
    assert [(row["name"], row["better"]) for row in found["listed"]] == [
        ("brevity", "higher"),
        ("evenness", "0.25 is ideal"),
        ("evenness_distance", "lower"),
    ]
    assert_names(found["listed"][0]["measured"], "--metrics", "brevity, tofu, all")


@pytest.mark.parametrize(
    ("name", "program"),
    [("verbmem", "import trainables.metrics.registry"), ("distance", "import sweeper.store.columns")],
)
def test_the_name_of_another_metric_or_column_is_refused(run: Callable[..., Any], name: str, program: str) -> None:
    done = run(program, brevity=ONE.replace('"evenness"', f'"{name}"'))
    assert_names(done.stderr, f"name: {name}" if name == "verbmem" else f"column: {name}")


@pytest.mark.parametrize("given", [{}, {"direction": "max", "ideal": 0.5}])
def test_a_record_has_either_a_direction_or_an_ideal(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric x: .*direction.*ideal"):
        Metric(name="x", label="x", cost=Cost.FORWARD, formula="0", citation="", measure=lambda scores: 0.0, **given)


def test_the_command_line_reads_the_records_without_numpy(run: Callable[..., Any]) -> None:
    program = "from sweeper.cli.listing import _metrics; _metrics(); print({'numpy', 'torch'} & sys.modules.keys())"
    assert run(program).stdout.strip() == "set()"
