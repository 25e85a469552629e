"""The time of the workers for each kind of work."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from analysis.report.render import say
from analysis.tables.worker_time import worker_time

COLUMNS = ("worker", "started_at", "first_step_at", "ended_at", "train_seconds", "eval_seconds", "generation_seconds")
ROWS = (
    # Two trials on one worker, 3 s apart, one on another worker, and a reused trial, which does not count.
    ("a:1", 100.0, 104.0, 120.0, 10.0, 5.0, 1.0, ""),
    ("a:1", 123.0, 123.5, 133.5, 8.0, 2.0, None, None),
    ("a:2", 100.0, 102.0, 110.0, 6.0, 1.5, 0.5, ""),
    ("b:9", 0.0, 1.0, 900.0, 800.0, 90.0, 0.0, "sweep/00003"),
)
TRIALS = pd.DataFrame(ROWS, columns=[*COLUMNS, "reused_from"])
TRIALS["wall_seconds"] = TRIALS["ended_at"] - TRIALS["started_at"]


def test_the_kinds_of_work_add_up_to_the_time_of_all_workers() -> None:
    found = worker_time(TRIALS)
    assert found is not None
    assert found.workers == 2
    assert list(found.kinds.values()) == pytest.approx([24.0, 7.0, 1.5, 6.5, 3.0, 1.5])
    assert found.total == pytest.approx(33.5 + 10.0)
    assert found.useful == pytest.approx(32.5 / 43.5)
    assert re.findall(r"\d[\d.]*%?", say("note.worker_time", spent=found)) == ["75%", "2", "43.5"]


def test_a_table_without_the_times_has_no_worker_time() -> None:
    assert worker_time(TRIALS.drop(columns="first_step_at")) is None
    assert worker_time(TRIALS.assign(train_seconds=None)) is None
