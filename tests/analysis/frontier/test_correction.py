"""The scores of the selected model are corrected for having been selected, on the items of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from analysis.frontier.correction import ItemScores, Resampling, correct, wilson_interval
from analysis.tables.columns import Column, Columns
from analysis.tables.item_logs import Parts
from analysis.tables.trade_off import Floats

COLUMNS = Columns(
    {
        "verbmem": Column(of="forget", bounds=(0.0, 1.0)),
        "utility": Column(of="retain", bounds=(0.0, 1.0)),
        "loss": Column(of="retain"),
    }
)


def _logs(**values: Floats) -> list[Mapping[str, Parts]]:
    """Return the per-item logs of models. Each argument is a metric with an array, shape (models, items)."""
    models = len(next(iter(values.values())))
    return [{name: [{"totals": list(array[model])}] for name, array in values.items()} for model in range(models)]


def _rows(**values: Floats) -> pd.DataFrame:
    return pd.DataFrame({name: array.mean(axis=1) for name, array in values.items()})


def _best(table: pd.DataFrame) -> int:
    return int(table["utility"].to_numpy().argmax())


def test_the_best_of_many_equal_models_is_corrected_to_the_value_of_all() -> None:
    rng = np.random.default_rng(1)
    plain, corrected, contained = [], [], 0
    for _ in range(40):
        utility = (rng.random((40, 50)) < 0.5).astype(float)
        rows = _rows(utility=utility)
        scores = ItemScores.of(_logs(utility=utility), COLUMNS)
        found = correct(rows, Resampling.of(scores), _best, _best(rows))["utility"]
        assert found.value == rows["utility"].max()
        plain.append(found.value)
        corrected.append(found.corrected)
        contained += found.low <= 0.5 <= found.high
    assert np.mean(plain) > 0.62
    assert np.mean(corrected) == pytest.approx(0.5, abs=0.03)
    assert contained >= 38


def test_a_single_model_keeps_its_value() -> None:
    utility = np.array([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]])
    found = correct(
        _rows(utility=utility), Resampling.of(ItemScores.of(_logs(utility=utility), COLUMNS), draws=2000), _best, 0
    )
    assert found["utility"].corrected == pytest.approx(utility.mean(), abs=0.02)
    assert found["utility"].low < 0.5 < found["utility"].high


def test_the_score_is_computed_on_the_items_that_were_not_drawn() -> None:
    """Model i is right on item i only. It is selected if item i was drawn most often, so its score is always 0."""
    utility = np.eye(6)
    rows = _rows(utility=utility)
    found = correct(rows, Resampling.of(ItemScores.of(_logs(utility=utility), COLUMNS)), _best, 0)
    assert found["utility"].value == pytest.approx(1 / 6)
    assert (found["utility"].corrected, found["utility"].low) == (0.0, 0.0)


def test_no_fact_told_of_twenty_leaves_a_share_of_one_tenth_possible() -> None:
    verbmem = np.zeros((3, 20))
    rows = _rows(verbmem=verbmem, loss=verbmem)
    found = correct(rows, Resampling.of(ItemScores.of(_logs(verbmem=verbmem, loss=verbmem), COLUMNS)), lambda _: 0, 0)
    assert (found["verbmem"].corrected, found["verbmem"].low) == (0.0, 0.0)
    assert found["verbmem"].high == pytest.approx(0.161, abs=0.001)
    assert found["loss"].high == 0.0  # a loss has no upper bound that its variance could be derived from


@pytest.mark.parametrize(("told", "items"), [(0, 20), (3, 20), (20, 20), (30, 60)])
def test_the_interval_of_a_share_is_that_of_scipy(told: int, items: int) -> None:
    expected = binomtest(told, items).proportion_ci(method="wilson")
    assert wilson_interval(told / items, items) == pytest.approx((expected.low, expected.high), abs=1e-5)


def test_equal_items_give_equal_numbers() -> None:
    utility = np.random.default_rng(1).random((5, 12))
    results = []
    for _ in range(2):
        scores = ItemScores.of(_logs(utility=utility), COLUMNS)
        results.append(correct(_rows(utility=utility), Resampling.of(scores), _best, 0))
    assert results[0] == results[1]


def test_metrics_of_the_same_items_are_drawn_together() -> None:
    values = np.random.default_rng(1).random((3, 10))
    other = values[:, :9]
    scores = ItemScores.of(_logs(verbmem=values, utility=values, loss=other), COLUMNS)
    drawn = Resampling.of(ItemScores.of(_logs(utility=values, loss=1.0 - values), COLUMNS)).drawn
    assert drawn["loss"] == pytest.approx(1.0 - drawn["utility"])
    keys = {name: parts[0].items for name, parts in scores.parts.items()}
    assert len(set(keys.values())) == 3


def test_a_loss_is_a_mean_over_tokens() -> None:
    log: Mapping[str, Parts] = {"loss": [{"totals": [6.0, 1.0], "counts": [3, 1]}]}
    scores = ItemScores.of([log], COLUMNS)
    weights = {("retain", 2): np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]])}
    assert scores.means(weights)["loss"][:, 0].tolist() == [7 / 4, 2.0, 1.0]


def test_a_metric_of_several_parts_is_their_harmonic_mean() -> None:
    log: Mapping[str, Parts] = {"utility": [{"totals": [1.0, 0.0]}, {"totals": [1.0, 1.0, 1.0, 0.0]}]}
    scores = ItemScores.of([log], COLUMNS)
    weights = {("retain", 2): np.ones((1, 2)), ("retain", 4): np.ones((1, 4))}
    assert scores.means(weights)["utility"][0, 0] == pytest.approx(2 / (1 / 0.5 + 1 / 0.75))


def test_items_without_a_value_do_not_count() -> None:
    log: Mapping[str, Parts] = {"utility": [{"totals": [1.0, 0.0, 0.0], "counts": [1, 0, 1]}]}
    means = ItemScores.of([log], COLUMNS).means({("retain", 3): np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])})
    assert means["utility"][0, 0] == 0.5
    assert np.isnan(means["utility"][1, 0])


def test_a_model_without_items_keeps_its_plain_value_in_every_draw() -> None:
    utility = np.array([[1.0, 0.0, 1.0, 0.0]])
    scores = ItemScores.of([*_logs(utility=utility), {}], COLUMNS)
    rows = pd.DataFrame({"utility": [0.5, 0.7]})
    resampling = Resampling.of(scores, draws=20)
    assert np.isnan(resampling.noise["utility"]).tolist() == [[False, True], [True, True]]
    tables = list(resampling.tables(rows))
    assert {table["utility"][1] for table in tables} == {0.7}
    assert len({table["utility"][0] for table in tables}) > 1
    assert correct(rows, Resampling.of(scores), _best, 1)["utility"].value == 0.7


def test_the_noise_of_a_difference_is_that_of_the_items_on_which_models_differ() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(100)
    second, third = first.copy(), rng.random(100)
    second[0] = first[0] - 0.5
    noise = Resampling.of(ItemScores.of(_logs(utility=np.array([first, first, second, third])), COLUMNS)).noise[
        "utility"
    ]
    assert noise[0, 1] == pytest.approx(0.0, abs=1e-6)
    # One of 100 items differs by 0.5, and is drawn about once, with a standard deviation of about 1.
    assert noise[0, 2] == pytest.approx(1.96 * 0.5 / 100, rel=0.15)
    assert noise[0, 3] == pytest.approx(1.96 * np.std(first - third) / 10, rel=0.15)
    assert np.array_equal(noise, noise.T)
