"""Of two trials with the same settings and seed the first counts, and it is said whether they ended alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.study.placed_trials import placed_trials
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, Row, trial

REPEATED = "repeated the settings and seed of another and did not count"


def notes_on(folder: Path) -> tuple[str, ...]:
    return placed_trials([(TrialTable.read(folder), ())]).notes


@pytest.mark.parametrize(
    ("later", "ended"),
    [
        ([{}], f"1 trial {REPEATED}; none ended otherwise"),
        ([{"wall_seconds": 7.0, "worker": "other"}], f"1 trial {REPEATED}; none ended otherwise"),
        ([{"utility": 0.5}], f"1 trial {REPEATED}; 1 ended otherwise: first counts and not later0"),
        ([{"status": "stopped"}], f"1 trial {REPEATED}; 1 ended otherwise: first counts and not later0"),
        (
            [{}, *({"utility": 0.1 * number} for number in range(5))],
            f"6 trials {REPEATED}; 5 ended otherwise: first counts and not later1; first counts and not later2; "
            "first counts and not later3; and 2 more",
        ),
    ],
)
def test_a_repeated_trial_is_told_with_whether_it_matters(make_sweep: MakeSweep, later: list[Row], ended: str) -> None:
    row = trial("first", 6.0, 0.5, verbmem=0.05, utility=0.7)
    rows = [row, *(row | fields | {"trial_id": f"later{place}"} for place, fields in enumerate(later))]
    assert notes_on(make_sweep(rows)) == (ended,)


def test_another_seed_repeats_nothing(make_sweep: MakeSweep) -> None:
    assert notes_on(make_sweep([trial(str(seed), 6.0, 0.5, seed=seed) for seed in (0, 1)])) == ()


def test_two_sweeps_with_the_same_trial_ids_are_told_apart(make_sweep: MakeSweep) -> None:
    parts = [
        (TrialTable.read(make_sweep([trial("0", 6.0, 0.5, utility=value)], name=name), sweep=name), ())
        for name, value in (("one", 0.7), ("two", 0.6))
    ]
    assert placed_trials(parts).notes == (f"1 trial {REPEATED}; 1 ended otherwise: one/0 counts and not two/0",)
