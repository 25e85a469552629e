"""A primary question, named beforehand, is not corrected for the others; the headline, and what weakens it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from analysis.page.report import write_report
from analysis.study.lr_study import LrStudy, read_study
from analysis.study.primary import Primary
from analysis.study.study_headline import study_cautions, study_headline
from analysis.study.study_tables import differences_table
from analysis.study.verdict import BETTER, OPEN, TOO_FEW, UNDECIDED, WORSE
from analysis.study.verdict_words import words
from tests.analysis.conftest import MakeRow, MakeSweep, trial

PEAK, RISING = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}, {1e-5: 0.1, 1e-4: 0.3, 1e-3: 0.45}


@pytest.fixture
def study(make_sweep: MakeSweep, row: MakeRow) -> Callable[..., LrStudy]:
    """``study({method: AutoLR's difference}, ...)``; eight methods with the same 0.29 on 20 fresh seeds by default."""

    def make(
        truths: dict[str, float], *, primary: str | None = None, seeds: int = 30, name: str = "out", **fields: object
    ) -> LrStudy:
        rates = fields.pop("rates", PEAK)
        assert isinstance(rates, dict)
        rows = [
            row(volume, lr, seed, auto=auto, method=method, utility=0.8, **fields)
            for method, truth in truths.items()
            for seed in range(seeds)
            for volume, lr, auto in [
                *((volume, lr, False) for lr, volume in rates.items()),
                (max(rates.values()) + truth, 1e-4, True),
            ]
        ]
        settings = {"kind": "lr-study", "sampler": "grid", "primary": primary}
        return read_study([make_sweep(rows, name=name, settings=settings)])

    return make


EIGHT = dict.fromkeys([f"method{index}" for index in range(8)], 0.24)


def test_a_primary_question_is_decided_where_correction_leaves_it_open(study: Callable[..., LrStudy]) -> None:
    """20 differences of 0.24 are worth p = 0.02 both ways, and 0.16 among eight."""
    assert {item.opponents[0].outcome for item in study(EIGHT).verdicts} == {UNDECIDED}
    found = study(EIGHT, primary="method3", name="named")
    outcomes = {item.case.method: item.opponents[0] for item in found.verdicts}
    assert outcomes["method3"].outcome == BETTER
    assert (outcomes["method3"].primary, outcomes["method3"].comparisons) == (True, 1)
    assert {item.outcome for name, item in outcomes.items() if name != "method3"} == {UNDECIDED}
    assert {item.comparisons for name, item in outcomes.items() if name != "method3"} == {7}
    assert study_headline(found).startswith(
        "AutoLR is better than the best single lr for method3 (the primary question);"
    )
    (text,) = [line for item in found.verdicts for line in words(item) if "is better than" in line]
    assert "(mean of bounded differences, the primary question, named beforehand)" in text
    assert json.loads(json.dumps(found.to_dict()))["verdicts"][3]["opponents"][0]["primary"] is True


def test_the_others_are_corrected_for_each_other_alone(study: Callable[..., LrStudy]) -> None:
    """Two others with the truth of a p-value that passes between two, and not between three."""
    two = dict.fromkeys(["a", "b", "c"], 0.27)
    assert {item.opponents[0].outcome for item in study(two, seeds=27).verdicts} == {UNDECIDED}
    found = study(two, seeds=27, primary="c", name="named")
    assert [item.opponents[0].comparisons for item in found.verdicts] == [2, 2, 1]


def test_a_null_primary_question_says_nothing_of_the_others(study: Callable[..., LrStudy]) -> None:
    found = study({"gdiff": 0.0, "ngdiff": 0.45}, primary="gdiff")
    assert [item.opponents[0].outcome for item in found.verdicts] == [UNDECIDED, BETTER]


def test_of_several_variants_one_is_primary() -> None:
    asked = Primary.parse("ngdiff/safe/freshx4")
    assert (asked.asks("ngdiff", "safe/freshx4"), asked.asks("ngdiff", "safe/fresh")) == (True, False)
    assert str(asked) == "ngdiff/safe/freshx4"
    assert Primary.parse("npo+ngdiff").asks("npo+ngdiff", "clip/fresh")


def test_studies_that_named_different_questions_have_none(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(volume, lr, seed) for seed in range(3) for lr, volume in PEAK.items()]
    folders = [
        make_sweep(rows, name=name, settings={"primary": primary}) for name, primary in (("a", "gdiff"), ("b", None))
    ]
    assert "the studies named different primary questions (gdiff and none)" in " ".join(read_study(folders).notes)


def test_the_caption_says_what_the_intervals_hold_for_together(study: Callable[..., LrStudy]) -> None:
    truths = {"gdiff": 0.3, "ngdiff": 0.3}
    assert "and for all rows together;" in differences_table(study(truths)).caption
    named = differences_table(study(truths, primary="gdiff", name="named")).caption
    assert "for the primary question by itself, and for all other rows together;" in named


def test_ties_stand_in_the_table_of_differences(study: Callable[..., LrStudy]) -> None:
    table = differences_table(study({"gdiff": 0.0}))
    assert {row[table.columns.index("ahead on")] for row in table.rows} == {"0 of 20 (0% to 17%), 20 tied"}


# The headline, and what weakens it ----------------------------------------------------------------------------------


def test_the_headline_groups_methods_by_what_can_be_said(study: Callable[..., LrStudy]) -> None:
    found = study({"gdiff": 0.45, "ngdiff": 0.0, "npo": 0.45})
    assert study_headline(found) == (
        "AutoLR is better than the best single lr for gdiff and npo; not shown to differ from the best single lr for "
        "ngdiff (20 fresh seeds)."
    )
    assert study_cautions(found) == ()


@pytest.mark.parametrize(("rates", "outcome"), [(RISING, OPEN), (PEAK, TOO_FEW)])
def test_where_nothing_can_be_concluded_no_conclusion_follows(
    study: Callable[..., LrStudy], rates: dict[float, float], outcome: str
) -> None:
    found = study({"gdiff": 0.3}, rates=rates, seeds=30 if outcome == OPEN else 2)
    assert found.verdicts[0].opponents[0].outcome == outcome
    assert study_headline(found).startswith("AutoLR: nothing can be concluded")
    text = " ".join(words(found.verdicts[0]))
    assert "nothing can be concluded" in text
    assert not [claim for claim in ("equals the best of", "is above", "no better than", "is better") if claim in text]


def between_rate_and_oracle(high: float, retain: float = 4.0) -> list[dict[str, object]]:
    """Two rates have half the box, each by another c; the oracle has 3/4 by both, and AutoLR 3/4 times 5/6 = 5/8."""
    rows: list[dict[str, object]] = []
    for seed in range(90):
        for lr in (1e-5, 1e-4, 1e-3, 1e-2):
            places = {1e-4: ((4.0, 0.0), (0.0, 8.0)), high: ((0.0, 8.0), (8.0, retain))}.get(lr, ((0.0, 8.0),) * 2)
            rows += [trial("", *place, lr=lr, c=c, seed=seed) for c, place in zip((0.9, 0.1), places, strict=True)]
        rows += [trial("", 6.0, 4 / 3, lr=1e-4, auto_lr="on", c=c, seed=seed) for c in (0.9, 0.1)]
    return [item | {"trial_id": f"{index:05d}", "method": "gdiff", "utility": 0.8} for index, item in enumerate(rows)]


def test_the_headline_tells_a_loss_to_the_oracle_beside_a_win(make_sweep: MakeSweep) -> None:
    """60 differences of 1/8 each way: one-sided p-values of 1.4 (9/8)^-60 = 0.0012, times four."""
    found = read_study([make_sweep(between_rate_and_oracle(1e-3))])
    assert study_headline(found) == (
        "AutoLR is better than the best single lr, worse than the per-c oracle for gdiff (60 fresh seeds)."
    )
    better, worse = words(found.verdicts[0])[:2]
    assert re.search(r"95% interval of the difference \+0\.0\d+ to \+0\.\d+", better)
    assert re.search(r"95% interval of the difference -0\.\d+ to (0$|-0\.0\d+$)", worse)


def test_a_loss_to_the_oracle_is_told_where_the_best_rate_is_at_the_edge(make_sweep: MakeSweep) -> None:
    found = read_study([make_sweep(between_rate_and_oracle(1e-2, 3.9))])
    assert [item.outcome for item in found.verdicts[0].opponents] == [OPEN, WORSE]
    assert study_headline(found) == (
        "AutoLR: nothing can be concluded, as the best rate is at the edge of the grid, but that it is worse than the "
        "per-c oracle, for gdiff (60 fresh seeds)."
    )


def test_worse_than_a_rate_at_the_edge_is_worse_than_the_best(study: Callable[..., LrStudy]) -> None:
    found = study({"gdiff": -0.4}, rates=RISING)
    assert study_headline(found) == "AutoLR is worse than the best single lr for gdiff (20 fresh seeds)."
    (edge,) = study_cautions(found)
    assert "the best rate is at the edge of the grid (1e-5 to 0.001)" in edge


def test_the_edge_and_few_updates_are_said(study: Callable[..., LrStudy], make_sweep: MakeSweep) -> None:
    found = study({"gdiff": 0.3}, rates=RISING)
    (edge,) = study_cautions(found)
    assert edge == (
        "gdiff: the best rate is at the edge of the grid (1e-5 to 0.001): extend it with --lr 0.01 (lr-study --extend "
        "adds rates by itself)."
    )
    assert "best at lr 0.001, at the edge of the rates tried" in found.sensitivity[0].words()
    hardly = replace(found, verdicts=(replace(found.verdicts[0], updates=3.0),))
    assert study_cautions(hardly)[1].startswith("gdiff: AutoLR clip/fresh set its rate 3 times in a run (median)")
    once = replace(hardly, verdicts=(replace(hardly.verdicts[0], variant="safe/freshx2"),))
    assert len(study_cautions(once)) == 1  # it sets its rate once in any run


def test_where_the_start_decides_who_is_ahead_that_is_said(make_sweep: MakeSweep, row: MakeRow) -> None:
    def of_starts(*volumes: float) -> LrStudy:
        rows = [
            row(volume, lr, seed, auto=auto, utility=0.8)
            for seed in range(3)
            for auto, arm in ((False, PEAK.values()), (True, volumes))
            for lr, volume in zip(PEAK, arm, strict=True)
        ]
        return read_study([make_sweep(rows, name=str(volumes[-1]))])

    apart = of_starts(0.9, 0.9, 0.25)
    told = (
        "who is ahead depends on where AutoLR clip/fresh starts: hypervolume 0.900 from lr 1e-5, 0.900 from lr 1e-4, "
        "0.250 from lr 0.001, against 0.450 of the best single lr; the verdict is on the mean over starts"
    )
    assert study_cautions(apart) == (f"gdiff: {told}.",)
    assert f"gdiff on tiny-phi, authors: {told}" in words(apart.verdicts[0])
    assert apart.verdicts[0].of_starts == pytest.approx((0.9, 0.9, 0.25))
    assert study_cautions(of_starts(0.9, 0.9, 0.5)) == ()  # ahead from every start


def test_the_pages_headline_is_the_studys_answer(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [
        row(volume, lr, seed, auto=auto, utility=0.8, verbmem=0.5)
        for seed in range(3)
        for volume, lr, auto in ((0.1, 1e-5, False), (0.3, 1e-4, False), (0.4, 1e-3, False), (0.5, 1e-4, True))
    ]
    out = make_sweep(rows, settings={"kind": "lr-study", "sampler": "grid", "trials": 12})
    write_report(out)
    page = (out / "report.html").read_text()
    assert "<h1>AutoLR: nothing can be concluded" in page
    assert "does AutoLR beat a person&#39;s choice of the learning rate?" in page or "beat a person's choice" in page
    assert '<p class="notice">gdiff: the best rate is at the edge of the grid' in page
    assert page.index("<h1>") < page.index("Which checkpoint?") < page.index("Too little was forgotten")


# What the seeds vary ------------------------------------------------------------------------------------------------


def varied(make_sweep: MakeSweep, row: MakeRow, seeds_vary: str | None, **entries: object) -> LrStudy:
    """Every seed with a target of its own, which for seed 1 has half of the others' utility."""
    rows = [
        row(volume, lr, seed, auto=auto, utility=0.3 if seed == 1 else 0.6, target_key=f"key{seed}")
        for seed in range(3)
        for volume, lr, auto in [*((volume, lr, False) for lr, volume in PEAK.items()), (0.5, 1e-4, True)]
    ]
    return read_study([make_sweep(rows, name=str(seeds_vary), settings={"seeds_vary": seeds_vary}, **entries)])


@pytest.mark.parametrize(
    ("seeds_vary", "said"),
    [
        ("target", "conditional on these data"),
        ("data", "conditional on this kind of data and of model"),
    ],
)
def test_seeds_with_targets_of_their_own_are_one_problem_where_that_was_declared(
    make_sweep: MakeSweep, row: MakeRow, seeds_vary: str, said: str
) -> None:
    (verdict,) = varied(make_sweep, row, seeds_vary).verdicts
    assert (verdict.tuning, verdict.fresh, verdict.case.apart) == ((0,), (1, 2), "")
    assert said in words(verdict)[-1]


def test_undeclared_targets_are_problems_of_their_own(make_sweep: MakeSweep, row: MakeRow) -> None:
    found = varied(make_sweep, row, None)
    assert {item.case.apart for item in found.verdicts} == {f"target key key{seed}" for seed in range(3)}
    assert "conditional on this one target model and these data" in words(found.verdicts[0])[-1]


def test_a_run_is_ruined_against_the_target_of_its_own_seed(make_sweep: MakeSweep, row: MakeRow) -> None:
    """0.3 keeps 70% of 0.4 and not of the mean, 0.667."""
    before = {str(seed): {"utility": 0.4 if seed == 1 else 0.8} for seed in range(3)}
    found = varied(make_sweep, row, "target", baseline={"utility": 2 / 3}, baselines=before)
    assert found.verdicts[0].ruin.runs == 0
    alone = varied(make_sweep, row, "data", baseline={"utility": 2 / 3})
    assert alone.verdicts[0].ruin.runs == 1
