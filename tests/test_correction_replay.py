"""The replay of corrected scores chooses by one half of the items, and its fresh scores are those of the other half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from correction_replay import METRICS, halves_of, read, replay

from analysis.tables.columns import Columns
from sweeper.store.columns import column_dictionary

DATA = Path(__file__).parents[1] / "docs/data/item_scores.jsonl.xz"


def test_the_halves_of_the_items_have_no_item_in_common_and_all_together() -> None:
    tables, _ = read(DATA)
    candidates = tables[951][:3]
    halves = halves_of(candidates, np.random.default_rng(0), Columns.from_dict(column_dictionary()))
    for name in ("forget_fact_recall", "utility"):
        for index, candidate in enumerate(candidates):
            values = [value for half in halves for value in half.parts[name][0].totals[index]]
            assert sorted(values) == sorted(candidate.scores[name][0]["totals"])
    assert [half.parts["utility"][0].known_items for half in halves] == [30, 30]


def test_a_row_has_the_corrected_score_of_the_chosen_model_and_its_fresh_score() -> None:
    tables, _ = read(DATA)
    rows = {str(row["metric"]): row for row in replay(951, 0, data=DATA)}
    assert {*rows} == {*METRICS}
    row = rows["utility"]
    run, _, epoch = str(row["model"]).partition(" after ")
    (candidate,) = [item for item in tables[951] if (item.run, item.epoch) == (run, epoch)]
    both = (float(str(row["plain"])) + float(str(row["fresh"]))) / 2
    assert both == pytest.approx(np.mean(candidate.scores["utility"][0]["totals"]), abs=1e-4)
    assert float(str(row["low"])) <= float(str(row["corrected"])) <= float(str(row["high"]))
