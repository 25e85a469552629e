"""The workers' time adds up, and says what was work."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from analysis.report.render import say
from analysis.tables.worker_time import worker_time


def _trials() -> pd.DataFrame:
    """Two trials on one worker, 3 s apart, and one on another; a trial taken over from elsewhere does not count."""
    columns = ("worker", "started_at", "first_step_at", "ended_at", "train_seconds", "eval_seconds")
    rows = [("a:1", 100.0, 104.0, 120.0, 10.0, 5.0), ("a:1", 123.0, 123.5, 133.5, 8.0, 2.0)]
    rows += [("a:2", 100.0, 102.0, 110.0, 6.0, 1.5), ("b:9", 0.0, 1.0, 900.0, 800.0, 90.0)]
    table = pd.DataFrame(rows, columns=columns)
    table["wall_seconds"] = table["ended_at"] - table["started_at"]
    table["generation_seconds"] = [1.0, None, 0.5, 0.0]
    table["reused_from"] = ["", None, "", "sweep/00003"]
    return table


def test_every_second_of_every_worker_is_somewhere() -> None:
    found = worker_time(_trials())
    assert found is not None
    assert (found.workers, found.training, found.generation, found.start) == (2, 24.0, 1.5, 6.5)
    assert found.losses_and_metrics == pytest.approx(7.0)
    assert found.between == pytest.approx(3.0)
    assert found.total == pytest.approx(33.5 + 10.0)
    assert found.useful == pytest.approx(32.5 / 43.5)
    assert found.kinds["training steps"] == 24.0
    assert re.findall(r"\d[\d.]*%?", say("note.worker_time", spent=found)) == ["75%", "2", "43.5"]


def test_a_table_that_does_not_say_has_none() -> None:
    assert worker_time(_trials().drop(columns="first_step_at")) is None
    assert worker_time(_trials().assign(train_seconds=None)) is None
