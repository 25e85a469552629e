"""Hypervolumes in additional reference boxes, compared with Optuna."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from optuna._hypervolume import compute_hypervolume

from analysis.frontier.frontier import hypervolume
from analysis.frontier.indicators import LOG_FLOOR, LOG_RETAIN, further_objectives
from analysis.report.study_text import write_study
from analysis.study.lr_study import read_study
from analysis.tables.trade_off import costs_of
from search_spaces.common.objective import Objective
from tests.analysis.conftest import MakeRow, MakeSweep, tables_of, trial

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


def test_a_verdict_describes_both_sides_in_every_box(make_sweep: MakeSweep, row: MakeRow, tmp_path: Path) -> None:
    rows = []
    for seed in range(3):  # one for tuning, two fresh ones
        for volume, lr, auto in ((0.3, 1e-5, False), (0.5, 1e-4, False), (0.4, 1e-3, False), (0.6, 1e-4, True)):
            rows.append(row(volume, lr, seed, auto=auto, verbmem=0.5, utility=0.4 if auto else 0.8))
    study = read_study([make_sweep(rows)])
    (verdict,) = study.verdicts
    further = verdict.baselines[0].further
    assert further[SCORES] == pytest.approx((0.5 * 0.4, 0.5 * 0.8))
    logged = [math.log((8 - 8 * math.sqrt(volume)) / 0.008) / math.log(1000) for volume in (0.6, 0.5)]
    expected = [math.sqrt(volume) * (1 - share) for volume, share in zip((0.6, 0.5), logged, strict=True)]
    assert further[LOG_RETAIN] == pytest.approx(expected)
    (fronts,) = study.fronts
    assert fronts.further[SCORES]["gdiff, AutoLR gen-clip/fresh"].epsilon == pytest.approx(0.4)
    write_study(tmp_path / "lr_study.json", study)
    text = (tmp_path / "lr_study.json").read_text()
    (curve,) = [item["curve"] for item in json.loads(text)["verdicts"]]
    assert ("Infinity" in text, curve["above_all_rates"], curve["equals"]) == (False, True, None)
    with (tmp_path / "lr_study.csv").open() as file:
        (first, *_, last) = csv.DictReader(file)
    assert (first["auto_lr"], first["lr"], first["seed"], first["collapsed_runs"]) == ("off", "1e-05", "0", "0")
    assert (last["auto_lr"], last["collapsed_runs"]) == ("gen-clip/fresh", "1")
    assert last["hypervolume_verbmem_and_utility"] == "0.2"
    assert float(last["hypervolume"]) == pytest.approx(0.6)
