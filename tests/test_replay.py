"""A replayed search finds the epochs of a table for the number of epochs that it spends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from replay import Arm, Run, Table, progress, read_tables, replay

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.settings.objectives import parse_objectives, with_bounds

METRICS = parse_objectives("verbmem:min,utility:max")
GUESS = math.log(100.0)
SPACE = Space((Number("lr", 1e-4, 1e-2, log=True, grid=(1e-4, 1e-3, 1e-2)),), {"method": "ngdiff"})
POINTS = {1e-4: ((0.9, 0.9), (0.5, 0.9)), 1e-3: ((0.6, 0.8), (0.1, 0.5)), 1e-2: ((0.0, 0.1), (0.0, 0.0))}
"""The (verbmem, utility) of two epochs by rate; (0.5, 0.9), (0.1, 0.5) and (0.0, 0.1) are the frontier."""
VOLUME = 0.5 * 0.9 + 0.4 * 0.5 + 0.1 * 0.1
GRID = Arm(sampler="grid", trials=3)


def made(points=POINTS) -> Table:
    runs = [
        Run(
            f"{lr:g}",
            {"method": "ngdiff", "lr": lr},
            "finished",
            tuple({"epoch": epoch, "verbmem": v, "utility": u} for epoch, (v, u) in enumerate(scores, 1)),
        )
        for lr, scores in points.items()
    ]
    return Table(SPACE, with_bounds(METRICS, GUESS), tuple(runs))


def test_a_grid_has_the_whole_frontier_after_all_epochs():
    table = made()
    assert (table.volume, len(table.front)) == (pytest.approx(VOLUME), 3)
    result = replay(table, GRID, seed=0)
    curves = progress(result, table, epochs=8)
    # A grid visits the rates in order: the first run ends after two epochs, the second after four. The third epoch,
    # (0.6, 0.8), adds nothing. The curves are constant after the end.
    alone, two = 0.5 * 0.9, 0.5 * 0.9 + 0.4 * 0.5
    assert curves.share * VOLUME == pytest.approx([0.0, 0.1 * 0.9, alone, alone, two, *[VOLUME] * 4])
    # The largest distance to a point of the frontier: 0.9 to (0.0, 0.1), then 0.5, then 0.1, then nothing.
    assert curves.epsilon == pytest.approx([1.0, 0.9, 0.5, 0.5, 0.1, *[0.0] * 4])
    assert (curves.reached, result.spent, result.stopped, len(result.order)) == (5, 6, 0, 3)


def test_only_last_epochs_of_finished_runs_are_candidates_and_the_budget_is_not_exceeded():
    result = replay(made(), replace(GRID, candidates="last"), seed=0)
    assert [(spent, row["verbmem"]) for spent, row in result.candidates] == [(2, 0.5), (4, 0.1), (6, 0.0)]
    assert replay(made(), Arm(sampler="random", trials=3, epoch_budget=3), seed=0).spent == 3


def test_the_last_epoch_of_a_diverged_run_is_spent_but_is_no_candidate():
    table = made()
    diverged = replace(table.runs[2], status="diverged", epochs=({"epoch": 1, "verbmem": "", "utility": ""},))
    table = Table(SPACE, table.objectives, (*table.runs[:2], diverged))
    result = replay(table, GRID, seed=0)
    assert (result.spent, table.volume) == (5, pytest.approx(0.5 * 0.9 + 0.4 * 0.5))
    assert progress(result, table, epochs=5).share[-1] == pytest.approx(1.0)


def test_the_scheduler_stops_trials_that_another_trial_beats():
    # Of three trials at a rung, two may continue: the second trial stops at its first rung, and so does the third.
    beaten = {1e-4: ((0.1, 0.9),) * 4, 1e-3: ((0.5, 0.5),) * 4, 1e-2: ((0.9, 0.1),) * 4}
    result = replay(made(beaten), replace(GRID, scheduler="moasha", reduction=3), seed=0)
    assert (result.order, result.spent, result.stopped) == (("0.0001", "0.001", "0.01"), 4 + 1 + 1, 2)
    assert replay(made(beaten), GRID, seed=0).spent == 12


def test_the_nearest_unused_run_answers_a_proposal():
    table, config = made(), {"method": "ngdiff", "lr": 2e-3}
    assert [table.nearest(config, unused) for unused in ({0, 1, 2}, {0, 2})] == [1, 2]
    assert table.distance(config, table.runs[2].config) == pytest.approx(math.log(5.0) / math.log(100.0))
    assert sorted(replay(table, Arm(sampler="random", trials=99), seed=1).order) == ["0.0001", "0.001", "0.01"]


def test_the_distance_of_two_methods_is_larger_than_any_distance_of_two_rates():
    c = Number("c", 0.1, 0.9, log_to_one=True, when={"method": ("gdiff",)})
    space = Space((Choice("method", ("gdiff", "ngdiff")), c, Number("lr", 1e-4, 1e-2, log=True)))
    configs = [{"method": "gdiff", "c": 0.1, "lr": 1e-4}, {"method": "ngdiff", "lr": 1e-2}]
    table = Table(space, with_bounds(METRICS, GUESS), tuple(Run("", config, "finished", ()) for config in configs))
    farthest = {"method": "gdiff", "c": 0.9, "lr": 1e-2}
    assert (table.nearest(farthest, {0, 1}), table.distance(farthest, configs[0])) == (0, pytest.approx(math.sqrt(2.0)))
    assert table.nearest({"method": "ngdiff", "lr": 1e-4}, {0, 1}) == 1


def test_a_file_of_recorded_runs_has_a_table_per_seed(tmp_path):
    lines = [
        "trial_id,method,c,lr,seed,epoch,status,random_guess,forget_loss_capped,retain_loss",
        "b,ngdiff,,1e-3,1,1,diverged,4.6,,",
        "a,gdiff,0.5,1e-4,0,2,finished,4.6,2.3,0.4",
        "a,gdiff,0.5,1e-4,0,1,,4.6,2.2,0.5",
        "c,gdiff,0.9,1e-4,0,1,finished,4.6,2.3,0.4",
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    first, second = read_tables(tmp_path / "rows.csv")
    assert first.runs[0].config == {"method": "gdiff", "c": 0.5, "lr": 1e-4}
    assert (first.runs[0].status, [row["epoch"] for row in first.runs[0].epochs]) == ("finished", ["1", "2"])
    assert [(table.seed, len(table.runs)) for table in (first, second)] == [(0, 2), (1, 1)]
