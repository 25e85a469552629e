"""The row of a cell counts only fresh runs as success, and only models with all attacked scores as attacked."""

from __future__ import annotations

import math

import pytest

from analysis.leaderboard.cell import cell_row
from tests.analysis.conftest import MakeSweep, trial
from tests.analysis.frontier.test_choice import ITEMS, TARGET, model

SETTINGS = {"base": {"model": "tiny-phi"}}


def test_a_recommendation_without_fresh_runs_is_neither_success_nor_failure(make_sweep: MakeSweep) -> None:
    good = make_sweep([trial("0", 6.0, 0.2, **model())], baseline=TARGET, items=ITEMS, settings=SETTINGS)
    row = cell_row(good)
    assert (row["outcome"], row["fresh_runs"]) == ("good", 0)
    assert math.isnan(float(str(row["success"])))


def test_a_search_that_recommends_no_model_is_a_failure(make_sweep: MakeSweep) -> None:
    missed = [trial("0", 6.0, 0.2, **model(forget_fact_recall=0.8))]
    row = cell_row(make_sweep(missed, baseline=TARGET, items=ITEMS, settings=SETTINGS))
    assert (row["outcome"], row["success"]) == ("missed", 0.0)


def test_only_models_with_every_attacked_score_count_after_attacks(make_sweep: MakeSweep) -> None:
    """The hypervolume is (1 - told) x kept. A relearned fact of the same half belongs to no other score."""
    scores: list[dict[str, float]] = [
        {"forget_fact_recall": 0.0, "retain_fact_recall": 1.0, "fact_recall_after_nf4": 0.1},
        {
            "forget_fact_recall": 0.1,
            "retain_fact_recall": 0.9,
            "fact_recall_after_nf4": 0.2,
            "leak_at_k": 0.4,
            "fact_recall_after_relearn_same": 1.0,
        },
    ]
    rows = [trial(str(number), 6.0, 0.2, **model(**values)) for number, values in enumerate(scores)]
    row = cell_row(make_sweep(rows, baseline=TARGET, items=ITEMS, settings=SETTINGS))
    assert row["attacks"] == "fact_recall_after_nf4 leak_at_k"
    assert row["hypervolume"] == pytest.approx(1.0)
    assert row["hypervolume_after_attack"] == pytest.approx(0.6 * 0.9)


def test_an_attack_without_a_result_on_any_model_leaves_no_hypervolume_after_attack(make_sweep: MakeSweep) -> None:
    """Otherwise, the method whose strongest attack failed would look resistant."""
    rows = [trial("0", 6.0, 0.2, **model(fact_recall_after_nf4=0.1, leak_at_k=math.nan))]
    target = {**TARGET, "fact_recall_after_nf4": 1.0, "leak_at_k": 1.0}
    row = cell_row(make_sweep(rows, baseline=target, items=ITEMS, settings=SETTINGS))
    assert row["attacks"] == "fact_recall_after_nf4 leak_at_k"
    assert math.isnan(float(str(row["hypervolume_after_attack"])))
