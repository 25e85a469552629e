"""Collapsed runs and lost seeds are counted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from analysis.report.study_text import study_cautions, study_content
from analysis.study.lr_study import fronts_table, read_study
from analysis.study.verdict import BETTER
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import FAILED, PEAK, STOPPED, Of, StudyBySeed


def only_auto(fields: Callable[[int], Row]) -> Of:
    return lambda seed, auto: fields(seed) if auto else {}


def test_a_stopped_run_is_missing_and_not_collapsed(study_by_seed: StudyBySeed) -> None:
    """A run that a user or scheduler stopped does not show how its configuration ends."""
    found = study_by_seed(only_auto(lambda seed: {"status": "stopped"} if seed >= 25 else {}))
    (verdict,) = found.verdicts
    assert (verdict.fresh, verdict.left_out) == (tuple(range(10, 25)), tuple(range(25, 30)))
    assert (verdict.collapse.runs, verdict.collapse.of) == (0, 15)
    assert ("stopped", 5) in found.notes[-1].facts


def test_of_a_target_without_any_utility_collapse_is_not_known(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(0.4, 1e-4, seed, auto=auto, utility=0.0) for seed in range(3) for auto in (False, True)]
    (verdict,) = read_study([make_sweep(rows, baseline={"utility": 0.0})]).verdicts
    assert (verdict.collapse.of, verdict.collapse.runs_unknown) == (0, 2)


COLLAPSED, UNKNOWN = {"utility": 0.01}, {"utility": None}
ALL = only_auto(lambda seed: COLLAPSED)
PARTLY = only_auto(lambda seed: COLLAPSED if seed < 15 else UNKNOWN)


def by_hand(seed: int, auto: bool) -> Row:
    return COLLAPSED if seed == 29 and not auto else {}


def left_out(seed: int, auto: bool) -> Row:
    """On seed 29, the run at a fixed rate failed and the run with AutoLR collapsed."""
    return {} if seed != 29 else COLLAPSED if auto else {"status": "failed"}


@pytest.mark.parametrize(
    ("of", "auto", "hand", "other"),
    [
        # AutoLR's runs on tuning seeds are counted separately.
        (ALL, (20, 20, 0), (0, 20, 0), (10, 10)),
        (by_hand, (0, 20, 0), (1, 20, 0), (0, 10)),
        (lambda seed, auto: UNKNOWN, (0, 0, 20), (0, 0, 20), (0, 0)),
        (PARTLY, (5, 5, 15), (0, 20, 0), (10, 10)),
        (left_out, (0, 19, 0), (0, 19, 0), (1, 11)),
    ],
    ids=["all of AutoLR", "by hand", "unknown", "partly unknown", "a seed left out"],
)
def test_collapse_of_either_side_is_counted(
    study_by_seed: StudyBySeed,
    of: Of,
    auto: tuple[int, int, int],
    hand: tuple[int, int, int],
    other: tuple[int, int],
) -> None:
    """``auto``, ``hand``: the numbers of collapsed, judged and unknown runs. ``other``: AutoLR's runs on other seeds"""
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    single = verdict.baselines[0]
    assert [(item.runs, item.of, item.runs_unknown) for item in (verdict.collapse, single.collapse)] == [auto, hand]
    assert (verdict.collapse.seeds.n, verdict.collapse.seeds_unknown) == auto[1:]
    assert (verdict.other_collapse.runs, verdict.other_collapse.of) == other
    assert single.outcome == BETTER
    assert study_content(found)["verdicts"][0]["other_collapse"]["runs"] == other[0]  # type: ignore[index]
    assert ("" in set(fronts_table(found.grid)["collapsed_runs"])) is (auto[2] > 0)


# Lost seeds ---------------------------------------------------------------------------------------------------------


def lost_on(*seeds: int, fields: Row | None = FAILED) -> Of:
    """Return the fields of a study in which AutoLR has no result on these seeds."""
    return lambda seed, auto: fields if auto and seed in seeds else {}


@pytest.mark.parametrize(
    ("of", "lost", "fresh", "caution"),
    [
        (lost_on(*range(24, 30)), 6, 14, "6 of 20 fresh seeds are left out.*; the remaining seeds may be easier"),
        (lost_on(29, fields=STOPPED), 1, 19, "1 of 20 fresh seeds is left out"),
        # If a seed was not run with AutoLR or is a tuning seed, no fresh seed is lost.
        (lost_on(29, fields=None), 0, 20, None),
        (lost_on(0), 0, 20, None),
        # No seed remains that could be easier.
        (lost_on(*range(10, 30)), 20, 10, "20 of 20 fresh seeds are left out, because a run has no result.$"),
    ],
    ids=["failed", "stopped", "not run", "a tuning seed", "all"],
)
def test_lost_fresh_seeds_are_counted(
    study_by_seed: StudyBySeed, of: Of, lost: int, fresh: int, caution: str | None
) -> None:
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    assert (verdict.lost, len(verdict.fresh), verdict.same_seeds) == (lost, fresh, lost == 20)
    assert [bool(re.search(caution or "", line)) for line in study_cautions(found)] == [True] * bool(caution)


def test_a_run_that_was_never_made_loses_its_seed_without_making_the_others_easier(
    make_sweep: MakeSweep, row: MakeRow
) -> None:
    """AutoLR was run from two initial rates on seeds 0 to 8, but on seed 3 only from the first."""
    hand = [row(volume, lr, seed) for seed in range(9) for lr, volume in PEAK.items()]
    auto = [row(0.5, lr, seed, auto=True) for seed in range(9) for lr in (1e-5, 1e-4) if (seed, lr) != (3, 1e-4)]
    study = read_study([make_sweep(hand + auto)])
    (verdict,) = study.verdicts
    assert (verdict.lost, len(verdict.fresh), len(verdict.planned), verdict.failed_seeds) == (1, 5, 6, ())
    assert not any("easier" in line for line in study_cautions(study))
