"""Of two trials with the same settings and seed the first counts, and a note says how many ended differently."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from analysis.study.placed_trials import placed_trials
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, Row, trial


@pytest.mark.parametrize(
    ("later", "count", "named"),
    [
        ([{"seed": 1}], 0, []),
        ([{}], 1, ["none"]),
        ([{"wall_seconds": 7.0, "worker": "other"}], 1, ["none"]),
        ([{"utility": 0.5}], 1, ["1", "first", "later0"]),
        ([{"status": "stopped"}], 1, ["1", "first", "later0"]),
        (
            [{}, *({"utility": 0.1 * number} for number in range(5))],
            6,
            ["5", "first", "later1", "first", "later2", "first", "later3", "2 more"],
        ),
    ],
)
def test_repeated_trials_are_counted_and_those_that_ended_differently_named(
    make_sweep: MakeSweep, later: list[Row], count: int, named: Sequence[str]
) -> None:
    row = trial("first", 6.0, 0.5, verbmem=0.05, utility=0.7)
    rows = [row, *(row | fields | {"trial_id": f"later{place}"} for place, fields in enumerate(later))]
    notes = placed_trials([(TrialTable.read(make_sweep(rows)), ())]).notes
    assert [int(note.split()[0]) for note in notes] == [count] * (count > 0)
    for note in notes:
        assert re.findall(r"none|\d+ more|\d+(?= ended)|first|later\d", note.partition(";")[2]) == named


def test_equal_trial_ids_of_two_sweeps_are_named_with_their_sweep(make_sweep: MakeSweep) -> None:
    parts = [
        (TrialTable.read(make_sweep([trial("0", 6.0, 0.5, utility=value)], name=name), sweep=name), ())
        for name, value in (("one", 0.7), ("two", 0.6))
    ]
    (note,) = placed_trials(parts).notes
    assert re.findall(r"\w+/0", note) == ["one/0", "two/0"]
