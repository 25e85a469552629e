"""Fresh seeds that were lost are counted in the headline, and said with the side whose runs did not end there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.study.lr_study import LrStudy, read_study
from analysis.study.study_headline import study_cautions, study_headline
from tests.analysis.conftest import MakeRow, MakeSweep, Row

Of = Callable[[int, bool], Row | None]
PEAK = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}
FAILED, STOPPED = (
    {"status": status, "forget_loss_capped": None, "retain_loss": None} for status in ("failed", "stopped")
)
EASIER = "; those that are left may be the easier ones."


@pytest.fixture
def study(make_sweep: MakeSweep, row: MakeRow) -> Callable[[Of], LrStudy]:
    """``study(of)``: 30 seeds, 20 of them fresh; ``of(seed, auto)`` are the fields of a trial, None for no trial."""

    def make(of: Of) -> LrStudy:
        rows = []
        for seed in range(30):
            sides = [(volume, lr, False) for lr, volume in PEAK.items()] + [(0.95, 1e-4, True)]
            for volume, lr, auto in sides:
                fields = of(seed, auto)
                if fields is not None:
                    rows.append(row(volume, lr, seed, auto=auto, **({"utility": 0.8} | fields)))
        return read_study([make_sweep(rows)])

    return make


def test_fresh_seeds_on_which_runs_failed_are_counted_and_whose_they_were_is_said(
    study: Callable[[Of], LrStudy],
) -> None:
    found = study(lambda seed, auto: FAILED if auto and seed >= 24 else {})
    assert study_headline(found) == "AutoLR is better than the best single lr for gdiff (14 of 20 fresh seeds)."
    assert study_cautions(found) == (
        f"gdiff: 6 of 20 fresh seeds are left out: runs with AutoLR failed on seeds 24 to 29{EASIER}",
    )
    told = found.to_dict()["verdicts"][0]  # type: ignore[index]
    assert told["fresh_seeds_planned"] == list(range(10, 30))
    assert told["fresh_seeds_lost"] == [{"side": "with AutoLR", "seeds": [24, 25, 26, 27, 28, 29], "how": ["failed"]}]


def test_each_side_has_its_own_losses(study: Callable[[Of], LrStudy]) -> None:
    lost = {(29, True): FAILED, (28, True): STOPPED, (28, False): FAILED}
    assert study_cautions(study(lambda seed, auto: lost.get((seed, auto), {}))) == (
        "gdiff: 2 of 20 fresh seeds are left out: runs with AutoLR were stopped or failed on seeds 28, 29; "
        f"runs at fixed learning rates failed on seed 28{EASIER}",
    )


def test_a_run_that_was_never_made_is_missing(make_sweep: MakeSweep, row: MakeRow) -> None:
    """AutoLR from two starts on seeds 0 to 8, from the second not on seed 3."""
    hand = [row(volume, lr, seed) for seed in range(9) for lr, volume in PEAK.items()]
    auto = [row(0.5, lr, seed, auto=True) for seed in range(9) for lr in (1e-5, 1e-4) if (seed, lr) != (3, 1e-4)]
    found = read_study([make_sweep(hand + auto)])
    assert study_cautions(found) == ("gdiff: 1 of 6 fresh seeds is left out: runs with AutoLR are missing on seed 3.",)
    assert "(5 of 6 fresh seeds)" in study_headline(found)


def test_seeds_of_tuning_and_of_one_side_alone_are_no_loss(study: Callable[[Of], LrStudy]) -> None:
    found = study(lambda seed, auto: None if auto and seed == 29 else FAILED if seed == 0 else {})
    assert found.verdicts[0].left_out == (0, 29)
    assert study_cautions(found) == ()
    assert study_headline(found).endswith("(20 fresh seeds).")


def test_where_all_fresh_seeds_are_lost_none_is_left_to_be_easier(study: Callable[[Of], LrStudy]) -> None:
    found = study(lambda seed, auto: FAILED if auto and seed >= 10 else {})
    assert "(10 seeds, which also chose the rates)" in study_headline(found)
    assert study_cautions(found) == (
        "gdiff: 20 of 20 fresh seeds are left out: runs with AutoLR failed on seeds 10 to 29.",
    )
