"""Which learning rate is best and how near to it one must be; the arms' fronts and attainment."""

from __future__ import annotations

import math

import pytest

from analysis.study.fronts import arm_fronts, study_attainment
from analysis.study.judging import verdicts_data
from analysis.study.sensitivity import rate_sensitivity
from analysis.study.verdict_words import curve_in_words
from tests.analysis.conftest import MakeGrid, MakeRow


def test_where_everything_diverged_no_rate_is_called_the_best(grid: MakeGrid, row: MakeRow) -> None:
    rows = [row(0.2, lr, 0, auto=auto) for lr in (1e-4, 1e-3) for auto in (False, True)]
    found = grid([item | {"status": "diverged", "forget_loss_capped": None, "retain_loss": None} for item in rows])
    (item,) = rate_sensitivity(found)
    assert (item.best_lr, item.near_best, item.decades) == (None, None, None)
    assert item.words() == "gdiff: nothing is attained at any of 2 learning rates; 2 trials diverged"
    (verdict,) = verdicts_data(found)
    assert "attains nothing" in curve_in_words(verdict.curve, verdict.opponents[0])


def test_the_range_within_5_percent_is_that_of_neighbours_of_the_best(grid: MakeGrid, row: MakeRow) -> None:
    volumes = {1e-5: 0.395, 3e-5: 0.2, 1e-4: 0.385, 3e-4: 0.4, 1e-3: 0.3}
    rows = [row(volume, lr, seed, verbmem=volume) for lr, volume in volumes.items() for seed in (0, 1)]
    rows += [row(0.36, lr, 0, auto=True) for lr in (1e-4, 1e-3)]
    (found,) = rate_sensitivity(grid(rows))
    assert found.best_lr == 3e-4
    assert found.near_best == (1e-4, 3e-4)
    assert found.decades == pytest.approx(math.log10(3))
    assert found.spread["hypervolume"] == pytest.approx(0.2)
    assert found.spread["verbmem"] == pytest.approx(0.2)
    assert "hypervolume differs by 0.200 between the best and the worst of these" in found.words()
    (place,) = found.auto
    assert (place.beats, place.share_of_best) == (2, pytest.approx(0.9))


def test_arms_are_compared_as_fronts_and_seeds_as_attainment(grid: MakeGrid, row: MakeRow) -> None:
    volumes = {1e-5: 0.1, 1e-4: 0.4, 1e-3: 0.3}
    rows = [row(volume, lr, seed) for seed in range(3) for lr, volume in volumes.items()]
    found = grid([*rows, *(row(0.6, 1e-4, seed, auto=True) for seed in range(3))])
    (fronts,) = arm_fronts(found)
    assert list(fronts.indicators) == ["gdiff, fixed lr", "gdiff, AutoLR clip/fresh"]
    assert fronts.indicators["gdiff, AutoLR clip/fresh"].epsilon == 0.0
    assert fronts.indicators["gdiff, fixed lr"].epsilon > 0.0  # type: ignore[operator]
    assert fronts.sensitivity.stable
    assert fronts.trials == {"gdiff, fixed lr": 9, "gdiff, AutoLR clip/fresh": 3}
    (verdict,) = verdicts_data(found)
    attained = study_attainment(found, verdict)
    assert attained.arms == ("AutoLR clip/fresh", "lr 1e-4")
    assert [surface.of for surface in attained.surfaces[0]] == [2, 2]
    assert attained.difference.differences.min() > 0


def test_rates_are_compared_on_the_seeds_that_all_of_them_have(grid: MakeGrid, row: MakeRow) -> None:
    """Odd seeds are hard; 3e-3 failed on them, and is 0.1 below 1e-3 on every seed that both have."""
    volumes = {3e-4: 0.1, 1e-3: 0.5, 3e-3: 0.4, 1e-2: 0.1}
    rows = []
    for seed in range(6):
        for lr, volume in volumes.items():
            failed = lr == 3e-3 and seed % 2
            own = {"verbmem": volume - 0.05 * (seed % 2)} | ({"status": "failed"} if failed else {})
            rows.append(row(max(0.01, volume - 0.3 * (seed % 2)), lr, seed, **own))
        rows.append(row(0.45 - 0.3 * (seed % 2), 1e-3, seed, auto=True))
    (found,) = rate_sensitivity(grid(rows))
    assert (found.best_lr, found.left_out, found.paired) == (1e-3, (1, 3, 5), True)
    assert [item.seeds for item in found.rates] == [3, 3, 3, 3]
    assert found.spread["verbmem"] == pytest.approx(0.4)
    assert found.words().endswith("; compared on the seeds that all of them have, without seeds 1, 3, 5")
    assert (found.auto[0].beats, found.auto[0].share_of_best) == (3, pytest.approx(0.9))


def test_rates_without_a_common_seed_are_said_to_have_none(grid: MakeGrid, row: MakeRow) -> None:
    (found,) = rate_sensitivity(grid([row(0.4, 1e-4, 0), row(0.5, 1e-3, 1)]))
    assert not found.paired
    assert found.words().endswith("each on seeds of its own, as no seed has a whole front at all of them")


def test_only_failures_leave_no_best_rate(grid: MakeGrid, row: MakeRow) -> None:
    (found,) = rate_sensitivity(grid([row(0.25, 1e-4, 0) | {"status": "failed", "forget_loss_capped": None}]))
    assert found.best_lr is None
    assert "no learning rate has a whole front" in found.words()


def test_where_no_fixed_rate_was_run_that_is_said(grid: MakeGrid, row: MakeRow) -> None:
    (found,) = rate_sensitivity(grid([row(0.25, 1e-4, seed, auto=True) for seed in range(3)]))
    assert found.words() == "gdiff: no fixed learning rate was run"


@pytest.mark.parametrize(
    ("volumes", "best"),
    [((0.4, 0.4, 0.4), 1e-4), ((0.4, 0.3, 0.4), 1e-5), ((0.3, 0.4, 0.4), 1e-4), ((0.4, 0.4 - 1e-14, 0.3), 1e-4)],
)
def test_of_equal_rates_sensitivity_and_verdict_take_the_same(
    grid: MakeGrid, row: MakeRow, volumes: tuple[float, ...], best: float
) -> None:
    rates = list(zip((1e-5, 1e-4, 1e-3), volumes, strict=True))
    rows = [row(volume, lr, seed) for seed in range(3) for lr, volume in rates]
    found = grid([*rows, *(row(0.5, 1e-4, seed, auto=True) for seed in range(3))])
    (item,), (verdict,) = rate_sensitivity(found), verdicts_data(found)
    assert {item.best_lr} == set(verdict.opponents[0].choice.values()) == {best}
    assert ("at the edge" in item.words()) == (verdict.opponents[0].edge is not None) == (best == 1e-5)
