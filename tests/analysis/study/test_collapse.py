"""Collapsed runs and lost seeds are counted, and named in the headline."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from analysis.report.render import say
from analysis.report.study import study_cautions, study_content, study_lines
from analysis.study.lr_study import fronts_table, read_study
from analysis.study.verdict import BETTER
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import DIVERGED, FAILED, PEAK, STOPPED, Of, StudyBySeed


def only_auto(fields: Callable[[int], Row]) -> Of:
    return lambda seed, auto: fields(seed) if auto else {}


def shares(text: str) -> list[str]:
    """Return the parts of the text such as ``3 of 20``, in order."""
    return [f"{count} of {total}" for count, total in re.findall(r"(\d+) (?:collapsed runs? )?of (\d+)", text)]


def test_a_stopped_run_is_missing_and_not_collapsed(study_by_seed: StudyBySeed) -> None:
    """A run that a user or scheduler stopped does not show how its configuration ends."""
    found = study_by_seed(only_auto(lambda seed: {"status": "stopped"} if seed >= 25 else {}))
    (verdict,) = found.verdicts
    assert (verdict.fresh, verdict.left_out) == (tuple(range(10, 25)), tuple(range(25, 30)))
    assert (verdict.collapse.runs, verdict.collapse.of) == (0, 15)
    assert ("stopped", 5) in found.notes[-1].facts


def test_diverged_runs_are_collapsed(study_by_seed: StudyBySeed) -> None:
    (verdict,) = study_by_seed(only_auto(lambda seed: DIVERGED | {"utility": None} if seed >= 25 else {})).verdicts
    assert (verdict.collapse.runs, verdict.collapse.of, verdict.collapse.seeds.count) == (5, 20, 5)
    assert verdict.baselines[0].auto[-5:] == (0.0,) * 5


def test_of_a_target_without_any_utility_collapse_is_not_known(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(0.4, 1e-4, seed, auto=auto, utility=0.0) for seed in range(3) for auto in (False, True)]
    (verdict,) = read_study([make_sweep(rows, baseline={"utility": 0.0})]).verdicts
    assert (verdict.collapse.of, verdict.collapse.runs_unknown) == (0, 2)


COLLAPSED, UNKNOWN = {"utility": 0.01}, {"utility": None}
ALL = only_auto(lambda seed: COLLAPSED)
TUNING = only_auto(lambda seed: COLLAPSED if seed < 10 else {})
HALF = only_auto(lambda seed: UNKNOWN if seed % 2 else {})
PARTLY = only_auto(lambda seed: COLLAPSED if seed < 15 else UNKNOWN)


def by_hand(seed: int, auto: bool) -> Row:
    return COLLAPSED if seed == 29 and not auto else {}


def left_out(seed: int, auto: bool) -> Row:
    """On seed 29, the run at a fixed rate failed and the run with AutoLR collapsed."""
    return {} if seed != 29 else COLLAPSED if auto else {"status": "failed"}


@pytest.mark.parametrize(
    ("of", "auto", "hand", "other", "headline"),
    [
        # AutoLR's runs on tuning seeds are counted separately.
        (ALL, (20, 20, 0), (0, 20, 0), (10, 10), ["20 of 20", "10 of 10", "0 of 20"]),
        (TUNING, (0, 20, 0), (0, 20, 0), (10, 10), ["0 of 20", "10 of 10", "0 of 20"]),
        (by_hand, (0, 20, 0), (1, 20, 0), (0, 10), ["0 of 20", "1 of 20"]),
        (lambda seed, auto: UNKNOWN, (0, 0, 20), (0, 0, 20), (0, 0), []),
        (HALF, (0, 10, 10), (0, 20, 0), (0, 5), ["0 of 10", "0 of 20"]),
        (PARTLY, (5, 5, 15), (0, 20, 0), (10, 10), ["5 of 5", "10 of 10", "0 of 20"]),
        (left_out, (0, 19, 0), (0, 19, 0), (1, 11), ["0 of 19", "1 of 11", "0 of 19"]),
    ],
    ids=["all of AutoLR", "tuning seeds", "by hand", "unknown", "half unknown", "partly unknown", "a seed left out"],
)
def test_collapse_of_either_side_is_counted_and_in_the_headline(
    study_by_seed: StudyBySeed,
    of: Of,
    auto: tuple[int, int, int],
    hand: tuple[int, int, int],
    other: tuple[int, int],
    headline: list[str],
) -> None:
    """``auto``, ``hand``: the numbers of collapsed, judged and unknown runs. ``other``: AutoLR's runs on other seeds"""
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    single, (text,) = verdict.baselines[0], study_lines(found)
    assert [(item.runs, item.of, item.runs_unknown) for item in (verdict.collapse, single.collapse)] == [auto, hand]
    assert (verdict.collapse.seeds.n, verdict.collapse.seeds_unknown) == auto[1:]
    assert (verdict.other_collapse.runs, verdict.other_collapse.of) == other
    assert single.outcome == BETTER
    assert shares(text.partition("AutoLR has")[2]) == headline
    # A share of 0 seeds is left out of the verdict's sentence.
    words = say("study_verdict.collapse", v=verdict)
    assert (f"{auto[0]} of {auto[1]}" in shares(words)) is (auto[1] > 0)
    assert (f"{auto[2]} " in words) or not auto[2]
    assert study_content(found)["verdicts"][0]["other_collapse"]["runs"] == other[0]  # type: ignore[index]
    assert ("" in set(fronts_table(found.grid)["collapsed_runs"])) is (auto[2] > 0)


AUTO, HAND = "with AutoLR", "at fixed learning rates"
LOST: dict[tuple[int, bool], Row] = {(29, True): FAILED, (28, True): STOPPED, (28, False): FAILED}


def no_loss(seed: int, auto: bool) -> Row | None:
    """The lost seed 0 is a tuning seed, and seed 29 was not run with AutoLR."""
    return None if auto and seed == 29 else FAILED if seed == 0 else {}


def autolr_from(first: int) -> Of:
    """Return the rows of a study in which AutoLR failed on every seed from ``first`` on."""
    return lambda seed, auto: FAILED if auto and seed >= first else {}


SIX, ALL = tuple(range(24, 30)), tuple(range(10, 30))


@pytest.mark.parametrize(
    ("of", "left_out", "lost", "counts", "easier"),
    [
        (autolr_from(24), SIX, [(AUTO, SIX, ("failed",))], (14, 20, False), True),
        (
            lambda seed, auto: LOST.get((seed, auto), {}),
            (28, 29),
            [(HAND, (28,), ("failed",)), (AUTO, (28, 29), ("were stopped", "failed"))],
            (18, 20, False),
            True,
        ),
        (no_loss, (0, 29), [], (20, 20, False), False),
        # No seed remains that could be easier.
        (autolr_from(10), ALL, [(AUTO, ALL, ("failed",))], (10, 20, True), False),
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
    """``counts``: the numbers of fresh and planned seeds, and whether the rates were chosen on the same seeds."""
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    assert (verdict.left_out, verdict.may_be_easier) == (left_out, easier)
    assert (len(verdict.fresh), len(verdict.planned), verdict.same_seeds) == counts
    assert sorted((item.side, item.seeds, item.how) for item in verdict.lost) == sorted(lost)
    content = study_content(found)["verdicts"][0]  # type: ignore[index]
    assert content["planned"] == list(verdict.planned)
    assert {item["side"] for item in content["lost"]} == {side for side, _, _ in lost}


def test_a_run_that_was_never_made_is_missing(make_sweep: MakeSweep, row: MakeRow) -> None:
    """AutoLR was run from two initial rates on seeds 0 to 8, but on seed 3 only from the first."""
    hand = [row(volume, lr, seed) for seed in range(9) for lr, volume in PEAK.items()]
    auto = [row(0.5, lr, seed, auto=True) for seed in range(9) for lr in (1e-5, 1e-4) if (seed, lr) != (3, 1e-4)]
    found = read_study([make_sweep(hand + auto)])
    (verdict,) = found.verdicts
    assert [(item.side, item.seeds, item.how) for item in verdict.lost] == [(AUTO, (3,), ("are missing",))]
    assert (len(verdict.fresh), len(verdict.planned), verdict.may_be_easier) == (5, 6, False)
    caution = "gdiff: 1 of 6 fresh seeds is left out: runs with AutoLR are missing on seed 3."
    assert study_cautions(found) == (caution,)
