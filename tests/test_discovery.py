"""The score of a combination under attack: the area that the worst values of its runs dominate."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from discovery import METRICS, area, best, drawn, point, scores_of

ROOT = Path(__file__).parents[1]


def row(factor: str, *values: float, status: str = "finished") -> dict[str, str]:
    """Return the row of a run with the forget accuracies without attack and after two, then the retain accuracies."""
    key = {"combination": "npo plain off", "problem": "3", "seed": "0", "factor": factor, "status": status}
    return key | dict(zip(METRICS, map(str, values), strict=False))


def test_the_point_of_a_run_has_the_worst_values_over_the_attacks() -> None:
    assert point(row("1", 0.1, 0.3, 0.2, 0.9, 0.8, 0.85)) == pytest.approx((0.7, 0.8))


@pytest.mark.parametrize(
    ("points", "expected"),
    [([], 0.0), ([(0.5, 0.8)], 0.4), ([(0.5, 0.8), (1.0, 0.2)], 0.2 + 0.5 * 0.6), ([(0.5, 0.8), (0.4, 0.7)], 0.4)],
)
def test_the_score_is_the_dominated_area(points: list[tuple[float, float]], expected: float) -> None:
    assert area(points) == pytest.approx(expected)


def test_a_diverged_run_has_no_point_and_a_combination_without_all_rates_has_no_score() -> None:
    runs = [row("0.333", 0.5, 0.5, 0.5, 0.8, 0.8, 0.8), row("1", status="diverged")]
    assert scores_of(runs) == {}
    scores = scores_of([*runs, row("3", status="diverged")])
    assert scores == {("npo plain off", "3", "0"): pytest.approx(0.4)}
    assert best(scores, ["npo plain off"], ["0"], 1) is None, "the score on the other problem is missing"


def test_the_draw_is_that_of_the_kept_rows() -> None:
    with (ROOT / "docs/data/discovery.csv").open(encoding="utf-8") as file:
        kept = {row["combination"] for row in csv.DictReader(file)}
    assert kept >= set(drawn())
