"""Ruined runs: told of those where it is known, named in the headline, and not confused with runs that were stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.study.fronts_csv import fronts_csv
from analysis.study.lr_study import LrStudy, read_study
from analysis.study.study_headline import study_headline
from analysis.study.verdict import BETTER, TOO_FEW
from analysis.study.verdict_words import ruin_in_words, words
from tests.analysis.conftest import MakeRow, MakeSweep, Row

PEAK = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}


@pytest.fixture
def study(make_sweep: MakeSweep, row: MakeRow) -> Callable[..., LrStudy]:
    """``study(difference, of)``: 30 seeds, 20 of them fresh; ``of(seed, auto)`` are the fields of a trial."""

    def make(difference: float, of: Callable[[int, bool], Row]) -> LrStudy:
        rows = []
        for seed in range(30):
            rows += [row(volume, lr, seed, **({"utility": 0.8} | of(seed, False))) for lr, volume in PEAK.items()]
            rows.append(row(0.45 + difference, 1e-4, seed, auto=True, **({"utility": 0.8} | of(seed, True))))
        return read_study([make_sweep(rows)])

    return make


def only_auto(fields: Callable[[int], Row]) -> Callable[[int, bool], Row]:
    return lambda seed, auto: fields(seed) if auto else {}


def test_a_stopped_run_is_missing_and_a_diverged_one_ruined(study: Callable[..., LrStudy]) -> None:
    """Ended by a user or a scheduler, whatever it scored: that says nothing of how its setting ends."""
    found = study(0.5, only_auto(lambda seed: {"status": "stopped"} if seed >= 25 else {}))
    (verdict,) = found.verdicts
    assert (verdict.fresh, verdict.left_out) == (tuple(range(10, 25)), tuple(range(25, 30)))
    assert (verdict.ruin.runs, verdict.ruin.of) == (0, 15)
    assert "left out, as not every run of both sides ended there: seeds 25 to 29" in words(verdict)[-1]
    (note,) = [note for note in found.notes if "lack a trial" in note]
    assert "5 trials stopped early say nothing of how they would have ended" in note


def test_all_fresh_runs_stopped_leave_nothing_to_conclude(study: Callable[..., LrStudy]) -> None:
    (verdict,) = study(0.0, only_auto(lambda seed: {"status": "stopped"} if seed >= 10 else {})).verdicts
    assert verdict.opponents[0].outcome == TOO_FEW
    assert verdict.ruin.runs == 0


def test_diverged_runs_stay_ruin(make_sweep: MakeSweep, study: Callable[..., LrStudy]) -> None:
    gone = {"status": "diverged", "forget_loss_capped": None, "retain_loss": None, "utility": None}
    (verdict,) = study(0.5, only_auto(lambda seed: gone if seed >= 25 else {})).verdicts
    assert (verdict.ruin.runs, verdict.ruin.of, verdict.ruin.seeds.count) == (5, 20, 5)
    assert verdict.opponents[0].auto[-5:] == (0.0,) * 5


def test_ruin_that_was_never_measured_is_not_told_as_none(study: Callable[..., LrStudy]) -> None:
    found = study(0.5, lambda seed, auto: {"utility": None})
    (verdict,) = found.verdicts
    said = ruin_in_words(verdict)
    assert "AutoLR clip/fresh not known on 20 fresh seeds, 20 runs of which it is not known" in said
    assert "%" not in said.partition("intervals:")[2]
    assert (verdict.ruin.seeds.n, verdict.ruin.seeds_unknown) == (0, 20)
    lines = [line.split(",") for line in fronts_csv(found.grid).splitlines()]
    assert {line[lines[0].index("ruined_runs")] for line in lines[1:]} == {""}


def test_ruin_is_told_of_the_runs_where_it_is_known(study: Callable[..., LrStudy]) -> None:
    (verdict,) = study(0.5, only_auto(lambda seed: {"utility": 0.1 if seed < 15 else None})).verdicts
    said = ruin_in_words(verdict)
    assert (
        "on 5 of 5 (48% to 100%) fresh seeds and not known on 15 fresh seeds, 5 ruined runs of 5, 15 runs of which"
        in said
    )
    assert "the best single lr on 0 of 20 (0% to 17%) fresh seeds, 0 ruined runs of 20" in said


def test_of_a_target_without_any_utility_ruin_is_not_known(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(0.4, 1e-4, seed, auto=auto, utility=0.0) for seed in range(3) for auto in (False, True)]
    (verdict,) = read_study([make_sweep(rows, baseline={"utility": 0.0})]).verdicts
    assert (verdict.ruin.of, verdict.ruin.runs_unknown) == (0, 2)


def test_the_headline_names_ruined_runs_of_either_side(study: Callable[..., LrStudy]) -> None:
    found = study(0.5, only_auto(lambda seed: {"utility": 0.01}))
    assert found.verdicts[0].opponents[0].outcome == BETTER
    assert study_headline(found) == (
        "AutoLR is better than the best single lr for gdiff (20 fresh seeds). "
        "For gdiff AutoLR has 20 ruined runs of 20, on tuning seeds 10 ruined runs of 10, the best single lr has 0 "
        "ruined runs of 20."
    )


def test_a_ruined_hand_tuned_side_is_in_the_headline_too(study: Callable[..., LrStudy]) -> None:
    found = study(0.5, lambda seed, auto: {"utility": 0.01} if seed == 29 and not auto else {})
    assert study_headline(found).endswith(
        "For gdiff AutoLR has 0 ruined runs of 20, the best single lr has 1 ruined run of 20."
    )


def test_the_headline_says_where_ruin_is_not_known(study: Callable[..., LrStudy]) -> None:
    assert study_headline(study(0.5, lambda seed, auto: {"utility": None})) == (
        "AutoLR is better than the best single lr for gdiff (20 fresh seeds). "
        "For gdiff it is not known whether runs are ruined: AutoLR 20 of 20, the best single lr 20 of 20."
    )


def test_the_headline_says_of_how_many_runs_ruin_is_not_known(study: Callable[..., LrStudy]) -> None:
    found = study(0.5, only_auto(lambda seed: {"utility": None if seed % 2 else 0.8}))
    assert study_headline(found).endswith("whether runs are ruined: AutoLR 10 of 20, the best single lr 0 of 20.")


def test_autolrs_ruin_on_tuning_and_left_out_seeds_is_in_the_headline(study: Callable[..., LrStudy]) -> None:
    """It tunes nothing: what it ruins there, it ruins."""
    found = study(0.5, only_auto(lambda seed: {"utility": 0.01} if seed < 10 else {}))
    assert (found.verdicts[0].ruin.runs, found.verdicts[0].other_ruin.runs) == (0, 10)
    told = "AutoLR has 0 ruined runs of 20, on tuning seeds 10 ruined runs of 10, the best single lr has 0 ruined"
    assert told in study_headline(found)
    assert "0 ruined runs of 20 (on tuning seeds 10 ruined runs of 10); the best" in ruin_in_words(found.verdicts[0])
    assert found.to_dict()["verdicts"][0]["other_ruin"]["runs"] == 10  # type: ignore[index]


def test_a_seed_that_was_left_out_hides_no_ruin(study: Callable[..., LrStudy]) -> None:
    """On seed 29 a fixed rate failed and AutoLR ruined the model."""
    found = study(0.0, lambda seed, auto: ({"utility": 0.01} if auto else {"status": "failed"}) if seed == 29 else {})
    (verdict,) = found.verdicts
    assert (verdict.ruin.runs, verdict.other_ruin.runs, verdict.other_ruin.of) == (0, 1, 11)
    assert "AutoLR has 0 ruined runs of 19, on tuning and left-out seeds 1 ruined run of 11, the" in study_headline(
        found
    )
