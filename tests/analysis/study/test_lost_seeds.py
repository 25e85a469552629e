"""Fresh seeds that were lost are counted in the headline, and named with the side whose runs did not end there."""

from __future__ import annotations

import re

import pytest

from analysis.report.study import study_cautions, study_content, study_headline
from analysis.study.lr_study import read_study
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import FAILED, PEAK, STOPPED, Of, StudyBySeed

AUTO, HAND = "with AutoLR", "at fixed learning rates"
LOST: dict[tuple[int, bool], Row] = {(29, True): FAILED, (28, True): STOPPED, (28, False): FAILED}


def autolr_on_six(seed: int, auto: bool) -> Row:
    return FAILED if auto and seed >= 24 else {}


def autolr_on_all(seed: int, auto: bool) -> Row:
    return FAILED if auto and seed >= 10 else {}


def both_sides(seed: int, auto: bool) -> Row:
    return LOST.get((seed, auto), {})


def no_loss(seed: int, auto: bool) -> Row | None:
    """Seed 0 tunes, and seed 29 was never run with AutoLR."""
    return None if auto and seed == 29 else FAILED if seed == 0 else {}


SIX, ALL = tuple(range(24, 30)), tuple(range(10, 30))


@pytest.mark.parametrize(
    ("of", "left_out", "lost", "headline", "caution"),
    [
        (autolr_on_six, SIX, [(AUTO, SIX, ("failed",))], "14 of 20 fresh", "6 of 20 .*failed on seeds 24 to 29;"),
        (
            both_sides,
            (28, 29),
            [(HAND, (28,), ("failed",)), (AUTO, (28, 29), ("were stopped", "failed"))],
            "18 of 20 fresh",
            "2 of 20 .*stopped or failed on seeds 28, 29; .*seed 28;",
        ),
        (no_loss, (0, 29), [], "(20 fresh", None),
        # No seed is left that could be easier.
        (autolr_on_all, ALL, [(AUTO, ALL, ("failed",))], "(10 seeds", r"20 of 20 .*seeds 10 to 29\.$"),
    ],
    ids=["one side", "both sides", "no loss", "all"],
)
def test_lost_fresh_seeds_are_counted_by_side(
    study_by_seed: StudyBySeed,
    of: Of,
    left_out: tuple[int, ...],
    lost: list[tuple[str, tuple[int, ...], tuple[str, ...]]],
    headline: str,
    caution: str | None,
) -> None:
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    assert verdict.left_out == left_out
    assert sorted((item.side, item.seeds, item.how) for item in verdict.lost) == sorted(lost)
    assert headline in study_headline(found)
    cautions = study_cautions(found)
    assert len(cautions) == (caution is not None)
    assert all(re.search(caution or "", text) for text in cautions)
    content = study_content(found)["verdicts"][0]  # type: ignore[index]
    assert content["fresh_seeds_planned"] == list(verdict.planned)
    assert {item["side"] for item in content["fresh_seeds_lost"]} == {side for side, _, _ in lost}


def test_a_run_that_was_never_made_is_missing(make_sweep: MakeSweep, row: MakeRow) -> None:
    """AutoLR from two starts on seeds 0 to 8, from the second not on seed 3."""
    hand = [row(volume, lr, seed) for seed in range(9) for lr, volume in PEAK.items()]
    auto = [row(0.5, lr, seed, auto=True) for seed in range(9) for lr in (1e-5, 1e-4) if (seed, lr) != (3, 1e-4)]
    found = read_study([make_sweep(hand + auto)])
    ((lost,),) = (verdict.lost for verdict in found.verdicts)
    assert (lost.side, lost.seeds, lost.how) == (AUTO, (3,), ("are missing",))
    (caution,) = study_cautions(found)
    assert re.search(r"1 of 6 fresh seeds.*seed 3\.$", caution), "the seeds left are not called easier"
    assert "5 of 6 fresh seeds" in study_headline(found)
