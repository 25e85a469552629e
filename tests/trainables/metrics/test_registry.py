"""What the registry of metrics refuses, and what its records promise beside the suite for plug-ins."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from trainables.metrics.metric import LANGUAGE, VISION, Cost, Metric
from trainables.metrics.registry import LOSS_METRICS, METRICS, SETS, primary_metrics


def test_a_metric_with_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from trainables.metrics.metric import Cost, Metric\n"
        "METRICS = Metric(name='distance', label='x', ideal=0.25, of='forget', cost=Cost.FORWARD, formula='a quarter',"
        " citation='nobody', measure=lambda scores: 0.75)\n"
    )
    with_own = f"import trainables.metrics; trainables.metrics.__path__.append({str(tmp_path)!r})"
    program = [sys.executable, "-c", f"{with_own}; import sweeper.store.columns"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert_names(done.stderr, "column: distance")


@pytest.mark.parametrize("given", [{}, {"direction": "max", "ideal": 0.5}])
def test_a_record_has_either_a_direction_or_an_ideal(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric x: .*direction.*ideal"):
        Metric(name="x", label="x", cost=Cost.FORWARD, formula="0", citation="", measure=lambda scores: 0.0, **given)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_a_search_optimises_a_metric_with_a_direction_and_finite_bounds(metric: Metric) -> None:
    optimised = METRICS[metric.optimised]
    assert optimised.direction is not None
    assert all(map(math.isfinite, optimised.bounds(1.0)))


def test_losses_are_in_no_set_and_each_modality_has_one_primary_metric_of_each_side() -> None:
    assert not [name for names in SETS.values() for name in names if name in LOSS_METRICS]
    for modality in (LANGUAGE, VISION):
        assert [METRICS[name].of for name in primary_metrics(modality)] == ["forget", "retain"]
