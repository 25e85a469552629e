"""Of two trials with the same settings and seed the first counts, and a note says how many ended differently."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analysis.study.study_runs import study_runs
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, Row, trial


@pytest.mark.parametrize(
    ("later", "count", "different"),
    [
        ([{"seed": 1}], 0, ()),
        ([{}], 1, ()),
        ([{"wall_seconds": 7.0, "worker": "other"}], 1, ()),
        ([{"utility": 0.5}], 1, ("later0",)),
        ([{"status": "stopped"}], 1, ("later0",)),
        ([{}, *({"utility": 0.1 * number} for number in range(5))], 6, tuple(f"later{i}" for i in range(1, 6))),
    ],
)
def test_repeated_trials_are_counted_and_those_that_ended_differently_named(
    make_sweep: MakeSweep, later: list[Row], count: int, different: Sequence[str]
) -> None:
    row = trial("first", 6.0, 0.5, verbmem=0.05, utility=0.7)
    rows = [row, *(row | fields | {"trial_id": f"later{place}"} for place, fields in enumerate(later))]
    notes = study_runs([(TrialTable.read(make_sweep(rows)), ())]).notes
    facts = {"count": count, "different": tuple(("first", name) for name in different)}
    assert [dict(note.facts) for note in notes] == [facts] * (count > 0)


def test_equal_trial_ids_of_two_sweeps_are_named_with_their_sweep(make_sweep: MakeSweep) -> None:
    parts = [
        (TrialTable.read(make_sweep([trial("0", 6.0, 0.5, utility=value)], name=name), sweep=name), ())
        for name, value in (("one", 0.7), ("two", 0.6))
    ]
    (note,) = study_runs(parts).notes
    assert ("different", (("one/0", "two/0"),)) in note.facts
