"""Lost fresh seeds are counted, and named with the side whose runs did not end there."""

from __future__ import annotations

import pytest

from analysis.report.study import study_cautions, study_content
from analysis.study.lr_study import read_study
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import FAILED, PEAK, STOPPED, Of, StudyBySeed

AUTO, HAND = "with AutoLR", "at fixed learning rates"
LOST: dict[tuple[int, bool], Row] = {(29, True): FAILED, (28, True): STOPPED, (28, False): FAILED}


def no_loss(seed: int, auto: bool) -> Row | None:
    """Seed 0 tunes, and seed 29 was never run with AutoLR."""
    return None if auto and seed == 29 else FAILED if seed == 0 else {}


def autolr_from(first: int) -> Of:
    return lambda seed, auto: FAILED if auto and seed >= first else {}


SIX, ALL = tuple(range(24, 30)), tuple(range(10, 30))


@pytest.mark.parametrize(
    ("of", "left_out", "lost", "counts", "easier"),
    [
        (
            lambda seed, auto: FAILED if auto and seed >= 24 else {},
            SIX,
            [(AUTO, SIX, ("failed",))],
            (14, 20, False),
            True,
        ),
        (
            lambda seed, auto: LOST.get((seed, auto), {}),
            (28, 29),
            [(HAND, (28,), ("failed",)), (AUTO, (28, 29), ("were stopped", "failed"))],
            (18, 20, False),
            True,
        ),
        (no_loss, (0, 29), [], (20, 20, False), False),
        # No seed is left that could be easier.
        (
            lambda seed, auto: FAILED if auto and seed >= 10 else {},
            ALL,
            [(AUTO, ALL, ("failed",))],
            (10, 20, True),
            False,
        ),
    ],
    ids=["one side", "both sides", "no loss", "all"],
)
def test_lost_fresh_seeds_are_counted_by_side(
    study_by_seed: StudyBySeed,
    of: Of,
    left_out: tuple[int, ...],
    lost: list[tuple[str, tuple[int, ...], tuple[str, ...]]],
    counts: tuple[int, int, bool],
    easier: bool,
) -> None:
    """``counts``: fresh seeds, planned ones, and whether the seeds also chose the rates."""
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    assert (verdict.left_out, verdict.seed_counts, verdict.may_be_easier) == (left_out, counts, easier)
    assert sorted((item.side, item.seeds, item.how) for item in verdict.lost) == sorted(lost)
    content = study_content(found)["verdicts"][0]  # type: ignore[index]
    assert content["fresh_seeds_planned"] == list(verdict.planned)
    assert {item["side"] for item in content["fresh_seeds_lost"]} == {side for side, _, _ in lost}


def test_a_run_that_was_never_made_is_missing(make_sweep: MakeSweep, row: MakeRow) -> None:
    """AutoLR from two starts on seeds 0 to 8, from the second not on seed 3."""
    hand = [row(volume, lr, seed) for seed in range(9) for lr, volume in PEAK.items()]
    auto = [row(0.5, lr, seed, auto=True) for seed in range(9) for lr in (1e-5, 1e-4) if (seed, lr) != (3, 1e-4)]
    found = read_study([make_sweep(hand + auto)])
    (verdict,) = found.verdicts
    assert [(item.side, item.seeds, item.how) for item in verdict.lost] == [(AUTO, (3,), ("are missing",))]
    assert (verdict.seed_counts, verdict.may_be_easier) == ((5, 6, False), False)
    caution = "gdiff: 1 of 6 fresh seeds is left out: runs with AutoLR are missing on seed 3."
    assert study_cautions(found) == (caution,)
