"""Hypervolumes in additional reference boxes, compared with Optuna."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from optuna._hypervolume import compute_hypervolume

from analysis.frontier.frontier import hypervolume
from analysis.frontier.indicators import LOG_FLOOR, LOG_RETAIN, further_objectives
from analysis.tables.trade_off import costs_of
from search_spaces.common.objective import Objective
from tests.analysis.conftest import MakeSweep, tables_of, trial
from tests.analysis.study.conftest import MakeStudy, auto, hand

GUESS = 8.0
SCORES = "verbmem and utility"


@pytest.mark.parametrize(
    ("loss", "cost"), [(GUESS, 1.0), (0.8, 2 / 3), (0.08, 1 / 3), (0.008, 0.0), (0.0, 0.0), (40, 1)]
)
def test_a_loss_on_a_log_scale_costs_a_third_a_decade(loss: float, cost: float) -> None:
    logged = Objective(name="r", column="r", direction="min", low=LOG_FLOOR * GUESS, high=GUESS, label="r", scale="log")
    assert float(logged.cost(loss)) == pytest.approx(cost, abs=1e-12)
    with pytest.raises(ValueError, match="bound above 0"):
        replace(logged, low=0.0)


@pytest.mark.parametrize("seed", range(2))
def test_the_hypervolume_in_each_box_is_what_optuna_finds(make_sweep: MakeSweep, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = zip(8 * random.random(6), 10 ** random.uniform(-2.5, 0.8, 6), *random.random((2, 6)), strict=True)
    rows = [trial(str(i), a, b, verbmem=verbmem, utility=utility) for i, (a, b, verbmem, utility) in enumerate(values)]
    table, sweep = tables_of(make_sweep(rows))
    boxes = further_objectives(sweep.objectives, table.columns, table.measured(table.columns.metrics))
    assert list(boxes) == [LOG_RETAIN, SCORES]
    losses, scores = (np.array([[row[a], row[b]] for row in rows], dtype=float) for a, b in
                      (("forget_loss_capped", "retain_loss"), ("verbmem", "utility")))  # fmt: skip
    share = np.log(np.clip(losses[:, 1], 0.008, 8) / 0.008) / math.log(1000)
    expected = {
        LOG_RETAIN: np.column_stack([1 - losses[:, 0] / 8, share]),
        SCORES: np.column_stack([scores[:, 0], 1 - scores[:, 1]]),
    }
    for name, box in boxes.items():
        costs = costs_of(table.finished[[item.column for item in box]].to_numpy(float), box)
        assert costs == pytest.approx(expected[name], abs=1e-12)
        assert hypervolume(costs) == pytest.approx(compute_hypervolume(costs, np.ones(2)), abs=1e-12)


def test_a_study_describes_both_arms_in_every_box(study: MakeStudy) -> None:
    seeds = range(3)
    rows = hand({1e-4: 0.8}, seeds=seeds, spread=0.0, verbmem=0.5) + auto(seeds=seeds, utility=0.4, verbmem=0.5)
    found = study([row | {"utility": 0.8 if row["auto_lr"] == "off" else 0.4} for row in rows])
    (item,) = found.sensitivity
    assert item.rates[0].further[SCORES] == pytest.approx(0.5 * 0.8)
    assert item.auto["gen/same"][0].further[SCORES] == pytest.approx(0.5 * 0.4)
    (fronts,) = found.fronts
    assert fronts.further[SCORES]["ngdiff, AutoLR gen/same"].epsilon == pytest.approx(0.4)
