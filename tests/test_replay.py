"""A search replayed on a table finds what the table has, for the epochs it says, by the study's own decisions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from replay.progress import progress
from replay.replay import Arm, replay
from replay.table import Run, Table, Yardstick

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.settings.objectives import axes, parse_objectives

METRICS = parse_objectives("verbmem:min,utility:max")
LOSSES = parse_objectives("forget_loss:max,retain_loss:min")
GUESS = math.log(100.0)
SPACE = Space((Number("lr", 1e-4, 1e-2, log=True, grid=(1e-4, 1e-3, 1e-2)),), {"method": "ngdiff"})
POINTS = {1e-4: ((0.9, 0.9), (0.5, 0.9)), 1e-3: ((0.6, 0.8), (0.1, 0.5)), 1e-2: ((0.0, 0.1), (0.0, 0.0))}
"""By rate the (verbmem, utility) of two epochs; (0.5, 0.9), (0.1, 0.5) and (0.0, 0.1) are the front."""
VOLUME = 0.5 * 0.9 + 0.4 * 0.5 + 0.1 * 0.1
GRID = Arm(sampler="grid", trials=3)


def made(points=POINTS, status="finished", space=SPACE) -> Table:
    runs = [
        Run(
            f"{lr:g}",
            {"method": "ngdiff", "lr": lr},
            status,
            tuple({"epoch": epoch, "verbmem": v, "utility": u} for epoch, (v, u) in enumerate(course, 1)),
        )
        for lr, course in points.items()
    ]
    return Table(space, axes(METRICS, GUESS), tuple(runs))


def test_a_grid_has_the_whole_front_after_all_epochs():
    table = made()
    yardstick = Yardstick.of(table)
    assert (yardstick.volume, len(yardstick.front)) == (pytest.approx(VOLUME), 3)
    course = replay(table, GRID, seed=0)
    curves = progress(course, yardstick, epochs=8)
    # A grid visits the rates in their order: after two epochs it has the first run, after four two of them. The third
    # epoch, (0.6, 0.8), adds nothing. The curves are constant after the end.
    alone, two = 0.5 * 0.9, 0.5 * 0.9 + 0.4 * 0.5
    assert curves.share * VOLUME == pytest.approx([0.0, 0.1 * 0.9, alone, alone, two, *[VOLUME] * 4])
    # What the front's farthest point lacks: 0.9 of (0.0, 0.1), then 0.5 of (0.0, 0.1), then 0.1 of it, then nothing.
    assert curves.epsilon == pytest.approx([1.0, 0.9, 0.5, 0.5, 0.1, *[0.0] * 4])
    assert (curves.reached, course.spent, course.stopped, len(course.order)) == (5, 6, 0, 3)


def test_last_epochs_count_when_a_trial_has_finished():
    course = replay(made(), replace(GRID, candidates="last"), seed=0)
    assert [(spent, row["verbmem"]) for spent, row in course.found] == [(2, 0.5), (4, 0.1), (6, 0.0)]


def test_no_epoch_is_spent_beyond_the_budget():
    assert replay(made(), Arm(sampler="random", trials=3, epoch_budget=3), seed=0).spent == 3


def test_a_diverged_run_costs_its_epochs_and_gives_no_more_than_it_measured():
    table = made()
    diverged = replace(table.runs[2], status="diverged", epochs=({"epoch": 1, "verbmem": "", "utility": ""},))
    table = Table(SPACE, table.objectives, (*table.runs[:2], diverged))
    course = replay(table, GRID, seed=0)
    assert (course.spent, Yardstick.of(table).volume) == (5, pytest.approx(0.5 * 0.9 + 0.4 * 0.5))
    assert progress(course, Yardstick.of(table), epochs=5).share[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(("stopping", "spent"), [("stop", 4 + 1 + 1), ("pause", 4 + 3 + 1)])
def test_the_scheduler_ends_what_another_trial_beats(stopping, spent):
    # Of two trials at a rung one may pass it, of three two: the second waits, goes on, and is ended at the next.
    beaten = {1e-4: ((0.1, 0.9),) * 4, 1e-3: ((0.5, 0.5),) * 4, 1e-2: ((0.9, 0.1),) * 4}
    arm = replace(GRID, scheduler="moasha", reduction=3, stopping=stopping)
    course = replay(made(beaten), arm, seed=0)
    assert (course.order, course.spent, course.stopped) == (("0.0001", "0.001", "0.01"), spent, 2)
    assert replay(made(beaten), GRID, seed=0).spent == 12


def test_a_trial_that_waits_goes_on_when_it_is_among_the_best():
    # Of two both may pass the rung, of three two, of four three: the third arrival waits and is promoted by the fourth.
    rising = {0.1: ((0.0, 0.9),) * 2, 0.2: ((0.1, 0.8),) * 2, 0.3: ((0.5, 0.5),) * 2, 0.4: ((0.9, 0.1),) * 2}
    table = made(rising, space=Space((Choice("lr", tuple(rising)),), {"method": "ngdiff"}))
    arm = Arm(sampler="grid", trials=4, scheduler="moasha", grace=1, reduction=2)
    assert replay(table, arm, seed=0).spent == 2 + 2 + 1 + 1
    assert replay(table, replace(arm, stopping="pause"), seed=0).spent == 2 + 2 + 2 + 1


def test_a_proposal_is_answered_by_the_nearest_unused_run():
    table, config = made(), {"method": "ngdiff", "lr": 2e-3}
    assert [table.nearest(config, unused) for unused in ({0, 1, 2}, {0, 2})] == [1, 2]
    assert table.distance(config, table.runs[2].config) == pytest.approx(math.log(5.0) / math.log(100.0))
    assert sorted(replay(table, Arm(sampler="random", trials=99), seed=1).order) == ["0.0001", "0.001", "0.01"]


def test_two_methods_are_farther_apart_than_any_two_rates():
    c = Number("c", 0.1, 0.9, log_to_one=True, when={"method": ("gdiff",)})
    space = Space((Choice("method", ("gdiff", "ngdiff")), c, Number("lr", 1e-4, 1e-2, log=True)))
    configs = [{"method": "gdiff", "c": 0.1, "lr": 1e-4}, {"method": "ngdiff", "lr": 1e-2}]
    table = Table(space, axes(METRICS, GUESS), tuple(Run("", config, "finished", ()) for config in configs))
    farthest = {"method": "gdiff", "c": 0.9, "lr": 1e-2}
    assert (table.nearest(farthest, {0, 1}), table.distance(farthest, configs[0])) == (0, pytest.approx(math.sqrt(2.0)))
    assert table.nearest({"method": "ngdiff", "lr": 1e-4}, {0, 1}) == 1


def test_a_logarithmic_axis_is_linear_in_the_logarithm():
    table, low = Table(SPACE, axes(LOSSES, GUESS), made().runs), 1e-3
    forget, retain = table.objectives
    row = {"forget_loss_capped": GUESS, "retain_loss": math.sqrt(low * GUESS)}
    assert Yardstick.of(table, (forget, replace(retain, low=low, log=True))).costs(row) == pytest.approx([0.0, 0.5])
    assert Yardstick.of(table).costs(row) == pytest.approx([0.0, math.sqrt(low / GUESS)])
    assert Yardstick.of(table).costs({"forget_loss_capped": math.nan, "retain_loss": 0.1}) is None
