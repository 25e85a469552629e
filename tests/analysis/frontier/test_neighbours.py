"""The next models on the frontier beside the selected model."""

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
    """The neighbours of a trial. 00004 is not on the frontier, and 00005 has the scores of 00001."""
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


def test_both_sides_are_named_with_the_better_and_the_worse_scores(near: Near) -> None:
    better, worse = near("00001")
    assert (better.side, better.model.trial_id, better.within_limits) == ("better forget_loss", "00000", None)
    assert better.better == {"forget_loss_capped": Change(7.0, 5.0), "verbmem": Change(0.02, 0.08)}
    assert better.worse == {"retain_loss": Change(3.0, 1.0), "utility": Change(0.3, 0.6)}
    assert (worse.side, worse.model.trial_id, worse.model.checkpoint) == (
        "worse forget_loss",
        "00002",
        "checkpoints/00002",
    )
    assert say("pick.neighbour", neighbour=worse).startswith("next model with worse forget loss: trial 00002 (ngdiff,")
    better, worse = near("00001", best=Best("wall_seconds", "min"), limits=[Constraint("verbmem", "<=", 0.1)])
    assert (better.within_limits, worse.within_limits) == (True, False)
    assert better.worse["wall_seconds"] == Change(9.0, 8.0)


@pytest.mark.parametrize(
    ("trial_id", "beside"),
    [("00000", ["00001"]), ("00003", ["00002"]), ("00004", ["00005", "00002"]), ("00006", [])],
    ids=["the first", "the last", "not on the frontier", "without objectives"],
)
def test_models_at_the_ends_and_beside_the_frontier_have_neighbours(
    near: Near, trial_id: str, beside: list[str]
) -> None:
    assert [item.model.trial_id for item in near(trial_id)] == beside
