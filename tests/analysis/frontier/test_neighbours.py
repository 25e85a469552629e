"""What the next models on the frontier trade for the one taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.frontier.neighbours import Change, Neighbour, neighbours
from analysis.frontier.pick import Best
from analysis.report.render import say
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, tables_of, trial

Near = Callable[..., tuple[Neighbour, ...]]


@pytest.fixture
def near(make_sweep: MakeSweep) -> Near:
    """Of a trial by its id; 00004 is not on the frontier, 00005 is 00001's double."""
    rows = [
        trial("00000", 7.0, 3.0, verbmem=0.02, utility=0.3, wall_seconds=9.0),
        trial("00001", 5.0, 1.0, verbmem=0.08, utility=0.6, wall_seconds=8.0),
        trial("00002", 3.0, 0.5, verbmem=0.30, utility=0.7, wall_seconds=7.0),
        trial("00003", 1.0, 0.2, verbmem=0.50, utility=0.7, wall_seconds=6.0),
        trial("00004", 4.0, 2.0, verbmem=0.20, utility=0.5, wall_seconds=5.0),
        trial("00005", 5.0, 1.0, verbmem=0.08, utility=0.6, wall_seconds=8.0),
        trial("00006", None, None, verbmem=0.08, utility=0.6),
    ]
    out = make_sweep(rows)
    table, sweep = tables_of(out)

    def run(trial_id: str, **given: object) -> tuple[Neighbour, ...]:
        (row,) = (row for _, row in table.models.trials.iterrows() if row["trial_id"] == trial_id)
        return neighbours(row, table, sweep, **given)  # type: ignore[arg-type]

    return run


def test_both_sides_are_named_with_what_is_better_and_worse(near: Near) -> None:
    better, worse = near("00001")
    assert (better.side, better.trial_id) == ("better forget_loss", "00000")
    assert better.better == {"forget_loss_capped": Change(7.0, 5.0), "verbmem": Change(0.02, 0.08)}
    assert better.worse == {"retain_loss": Change(3.0, 1.0), "utility": Change(0.3, 0.6)}
    assert (worse.side, worse.trial_id, worse.checkpoint) == ("worse forget_loss", "00002", "checkpoints/00002")
    assert say("pick.neighbour", neighbour=worse).startswith("next model with worse forget loss: trial 00002 (ngdiff,")


def test_the_ends_of_the_frontier_have_one_and_a_model_beside_it_its_nearest_in_the_first_objective(near: Near) -> None:
    assert [item.trial_id for item in near("00000")] in (["00001"], ["00005"])
    (last,) = near("00003")
    assert (last.trial_id, last.worse) == ("00002", {"retain_loss": Change(0.5, 0.2)})
    assert [item.trial_id for item in near("00004")] == ["00005", "00002"]
    assert near("00006") == (), "a model without objectives"


def test_neighbours_are_compared_in_the_wanted_column_and_held_against_the_limits(near: Near) -> None:
    better, worse = near("00001", best=Best("wall_seconds", "min"), limits=[Constraint("verbmem", "<=", 0.1)])
    assert (better.within_limits, worse.within_limits) == (True, False)
    assert better.worse["wall_seconds"] == Change(9.0, 8.0)
    assert near("00001")[0].within_limits is None
