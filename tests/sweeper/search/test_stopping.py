"""When a sweep ends by itself, and what is said to be left of it until then."""

from __future__ import annotations

import pytest
from sweeper.followers.eta import Estimate, Pace

from sweeper.search.stopping import Plateau, Stopping, UntilError, parse_until


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("none", None),
        ("plateau", Plateau(10, 0.001)),
        ("plateau:5", Plateau(5, 0.001)),
        ("plateau:5:0", Plateau(5, 0.0)),
        ("plateau:20:1e-4", Plateau(20, 1e-4)),
    ],
)
def test_until_is_a_plateau_of_some_trials_and_some_growth(text: str | None, expected: Plateau | None) -> None:
    assert parse_until(text) == expected


@pytest.mark.parametrize(
    "text",
    ["plato", "plateau:", "plateau:x", "plateau:0", "plateau:3:-1", "plateau:3:nan", "plateau:3:inf", "plateau:1:1:1"],
)
def test_what_is_no_plateau_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UntilError, match=r"such as plateau:10:0\.001"):
        parse_until(text)


@pytest.mark.parametrize(
    ("trace", "reached"),
    [
        ([], False),
        ([0.5, 0.5], False),  # two trials are one growth
        ([0.5, 0.5, 0.5], True),
        ([0.2, 0.5, 0.5], False),
        ([0.2, 0.5, 0.5, 0.509], True),
        ([0.2, 0.5, 0.5, 0.5101], False),
        ([0.0, 0.0, 0.0, 0.0], False),  # nothing is attained yet
    ],
)
def test_a_plateau_is_reached_when_the_last_trials_added_little(trace: list[float], reached: bool) -> None:
    assert Plateau(2, 0.01).is_reached(trace) == reached


def test_an_epoch_budget_counts_every_trial_once_whatever_became_of_it() -> None:
    stopping = Stopping(epoch_budget=10)
    stopping.restore([{"trial_id": name, "epoch": str(epoch)} for name in ("a", "b") for epoch in (1, 2, 3)])
    assert (stopping.epochs, stopping.end([])) == (6.0, None)
    stopping.reported("b", 2)  # a restarted worker repeats
    stopping.reported("c", 4)
    end = stopping.end([])
    assert end is not None
    assert "10 epochs" in end.because
    assert end.further == "--epoch-budget EPOCHS"
    stopping.forget("c")
    assert stopping.end([]) is None
    without = Stopping()
    without.reported("a", 1e6)
    assert without.end([0.5] * 100) is None


def test_what_is_left_follows_the_pace_so_far_and_the_epoch_budget() -> None:
    pace = Pace(trials=10, stopping=Stopping(), at_once=2)
    assert pace.estimate() == Estimate(10)
    pace.take_up([{"wall_seconds": "30", "epochs_done": "15"}, {"wall_seconds": "50", "epochs_done": "15"}])
    assert pace.estimate() == Estimate(8, 160.0)
    assert "2 min 40 s" in pace.estimate().words()
    pace.ended({"status": "failed"})  # without times it counts as done
    assert pace.estimate() == Estimate(7, 140.0)
    stopping = Stopping(epoch_budget=40)
    pace = Pace(trials=10, stopping=stopping)
    stopping.reported("a", 15)
    pace.ended({"wall_seconds": 20.0, "epochs_done": 15.0})
    assert pace.estimate() == Estimate(2, 40.0)  # 25 epochs are a trial and a part of one
