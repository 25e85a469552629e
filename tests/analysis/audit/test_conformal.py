"""The p-value is calibrated for every distribution, and names the metric in which a model deviates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from analysis.audit.conformal import pool_test, smallest_p, squared_deviations
from analysis.tables.trade_off import Floats


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def steps(*values: float) -> Floats:
    return np.array(values)


def test_squared_deviations_are_those_from_the_other_models(rng: np.random.Generator) -> None:
    values = rng.normal(size=(8, 3))
    found = squared_deviations(values, item_steps=steps(0.0, 0.0, 10.0))
    for row, column in np.ndindex(8, 3):
        others = np.delete(values[:, column], row)
        sd = 10.0 if column == 2 else others.std()
        assert found[row, column] == pytest.approx(((values[row, column] - others.mean()) / sd) ** 2)
    assert squared_deviations(np.full((5, 1), 0.1), item_steps=steps(0.0)).tolist() == [[0.0]] * 5


def test_with_one_metric_the_p_value_is_the_rank_of_the_distance_from_the_mean_of_all(rng: np.random.Generator) -> None:
    for _ in range(50):
        values = rng.gamma(2.0, size=(12, 1))
        distances = np.abs(values - values.mean())
        expected = np.mean(distances >= distances[-1])
        assert pool_test(values[:-1], values[-1], item_steps=steps(0.0)).p == pytest.approx(expected)


def _normal(rng: np.random.Generator) -> Floats:
    mixing = np.array([[1.0, 0.9, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 3.0]])
    return np.asarray(rng.normal(size=(20, 3)) @ mixing)


def _heavy_tails(rng: np.random.Generator) -> Floats:
    return rng.standard_t(1.5, size=(20, 3))


def _few_values(rng: np.random.Generator) -> Floats:
    return rng.integers(0, 3, size=(20, 3)) / 10.0


@pytest.mark.parametrize("draw", [_normal, _heavy_tails, _few_values])
def test_an_ignorant_model_is_rejected_in_at_most_five_per_cent_of_cases(
    draw: Callable[[np.random.Generator], Floats], rng: np.random.Generator
) -> None:
    runs = 2000
    p_values = []
    for _ in range(runs):
        models = draw(rng)
        p_values.append(pool_test(models[:-1], models[-1], item_steps=steps(0.0, 0.0, 0.1)).p)
    for level in (0.05, 0.1, 0.25, 0.5):
        rejected = int(np.sum(np.array(p_values) <= level))
        p_too_many = stats.binomtest(rejected, runs, level, alternative="greater").pvalue
        assert p_too_many > 1e-4, f"{rejected} of {runs} rejected at level {level}"
    if draw is not _few_values:  # without ties, the p-values are uniform on 1/20, 2/20, ...
        assert stats.kstest(np.array(p_values) - rng.uniform(0, 1 / 20, runs), "uniform").pvalue > 1e-4


def test_a_model_outside_the_pool_gets_the_smallest_p_value_and_the_metric_that_gives_it_away(
    rng: np.random.Generator,
) -> None:
    pool = rng.normal(size=(19, 4))
    for metric, value in [(0, 30.0), (3, -30.0)]:
        model = np.zeros(4)
        model[metric] = value
        test = pool_test(pool, model, item_steps=np.zeros(4))
        assert (test.p, test.metric) == (smallest_p(19), metric)
    assert smallest_p(19) == 0.05


def test_a_value_that_differs_from_equal_values_is_outside_the_pool() -> None:
    same = np.full((5, 1), 0.1)
    assert pool_test(same, same[0], item_steps=steps(0.0)).p == 1.0
    assert pool_test(same, np.array([0.1001]), item_steps=steps(0.0)).p == smallest_p(5)


def test_loops_in_a_model_of_the_pool_do_not_hide_a_model_that_knows() -> None:
    """Two of 20 answers are loops, which four metrics show. All other models of the pool have none."""
    loss, recall, loops = np.linspace(5.3, 5.6, 20), np.linspace(0.0, 0.02, 20), np.zeros((20, 4))
    loops[7] = [0.1, 0.1, 0.02, 0.02]
    pool = np.column_stack([loss, recall, loops])
    item_steps = steps(0.0, *[0.05] * 5)
    knowing = pool_test(pool, np.array([1.3, 0.175, 0.0, 0.0, 0.0, 0.0]), item_steps=item_steps)
    assert (knowing.p, knowing.metric) == (smallest_p(20), 0)
