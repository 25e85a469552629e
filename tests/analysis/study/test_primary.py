"""The primary question, the headline and its cautions, and what the seeds vary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from analysis.report.report import write_report
from analysis.report.study_text import differences_table, study_cautions, study_lines, study_title
from analysis.report.study_text import verdict_lines as words
from analysis.study.lr_study import LrStudy, read_study
from analysis.study.verdict import BETTER, UNDECIDED, WORSE, Primary
from tests.analysis.conftest import MakeRow, MakeSweep, trial
from tests.analysis.study.conftest import PEAK, RISING, table

MakeStudy = Callable[..., LrStudy]


@pytest.fixture
def study(make_sweep: MakeSweep, row: MakeRow) -> MakeStudy:
    """``study({method: AutoLR's difference}, ...)``, by default on 30 seeds, 20 of them fresh."""

    def make(
        truths: dict[str, float],
        *,
        primary: str | None = None,
        rates: dict[float, float] = PEAK,
        name: str = "out",
    ) -> LrStudy:
        rows = [item for method, truth in truths.items() for item in table(row, truth, rates=rates, method=method)]
        settings = {"kind": "lr-study", "sampler": "grid", "primary": primary}
        return read_study([make_sweep(rows, name=name, settings=settings)])

    return make


def outcomes(study: LrStudy) -> dict[str, str]:
    """Return the outcome against the best single rate for each method."""
    return {item.task.method: item.baselines[0].outcome for item in study.verdicts}


def test_a_primary_question_is_decided_while_correction_leaves_it_open(study: MakeStudy) -> None:
    """For 20 differences of 0.24, the two-sided p-value is 0.02. Corrected for eight comparisons, it is 0.16."""
    truths = dict.fromkeys([f"method{index}" for index in range(8)], 0.24)
    assert set(outcomes(study(truths)).values()) == {UNDECIDED}
    found = study(truths, primary="method3", name="named")
    assert outcomes(found) == dict.fromkeys(truths, UNDECIDED) | {"method3": BETTER}
    single = {item.task.method: item.baselines[0] for item in found.verdicts}
    assert {name: (item.primary, item.comparisons) for name, item in single.items()} == {
        **dict.fromkeys(truths, (False, 7)),
        "method3": (True, 1),
    }
    assert study_lines(found)[0].startswith("method3 (the primary question)")


def test_a_null_primary_question_says_nothing_about_the_others(study: MakeStudy) -> None:
    found = study({"gdiff": 0.0, "ngdiff": 0.45}, primary="gdiff")
    assert outcomes(found) == {"gdiff": UNDECIDED, "ngdiff": BETTER}
    assert len(differences_table(found).rows) == sum(len(item.baselines) for item in found.verdicts)


def test_a_primary_question_may_name_a_variant() -> None:
    asked = Primary.parse("ngdiff/safe/freshx4")
    assert (asked.asks("ngdiff", "safe/freshx4"), asked.asks("ngdiff", "safe/fresh")) == (True, False)
    assert str(asked) == "ngdiff/safe/freshx4"
    assert Primary.parse("npo+ngdiff").asks("npo+ngdiff", "clip/fresh")


def test_studies_that_named_different_questions_have_none(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(volume, lr, seed) for seed in range(3) for lr, volume in PEAK.items()]
    named = (("a", "gdiff"), ("b", None))
    found = read_study([make_sweep(rows, name=name, settings={"primary": primary}) for name, primary in named])
    assert found.primary is None
    assert found.notes[-1].facts == (("named", ("gdiff", "")),)


# The headline, and what weakens it ----------------------------------------------------------------------------------


def test_the_answer_has_a_line_for_each_method(study: MakeStudy) -> None:
    found = study({"gdiff": 0.45, "ngdiff": 0.0})
    assert study_title(found) == "AutoLR against the best single lr: 1 better, 1 not shown to differ"
    *lines, collapsed = study_lines(found)
    assert [line.partition(":")[0] for line in lines] == ["gdiff", "ngdiff"]
    assert re.findall(r"\d+ collapsed runs of \d+", collapsed) == ["0 collapsed runs of 20"] * 2, (
        "once for both methods"
    )
    assert study_cautions(found) == ()


def between_rate_and_oracle() -> list[dict[str, object]]:
    """Two rates have the hypervolume 1/2, each with another c. The oracle has 3/4, and AutoLR 3/4 times 5/6 = 5/8."""
    rows: list[dict[str, object]] = []
    for seed in range(90):
        for lr in (1e-5, 1e-4, 1e-3, 1e-2):
            places = {1e-4: ((4.0, 0.0), (0.0, 8.0)), 1e-3: ((0.0, 8.0), (8.0, 4.0))}.get(lr, ((0.0, 8.0),) * 2)
            rows += [trial("", *place, lr=lr, c=c, seed=seed) for c, place in zip((0.9, 0.1), places, strict=True)]
        rows += [trial("", 6.0, 4 / 3, lr=1e-4, auto_lr="on", c=c, seed=seed) for c in (0.9, 0.1)]
    return [item | {"trial_id": f"{index:05d}", "method": "gdiff", "utility": 0.8} for index, item in enumerate(rows)]


def test_the_oracle_may_be_better_than_autolr_although_the_best_rate_is_worse(make_sweep: MakeSweep) -> None:
    """60 differences of +1/8 and of -1/8 have one-sided p-values of 1.4 (9/8)^-60 = 0.0012, times four."""
    found = read_study([make_sweep(between_rate_and_oracle())])
    baselines = found.verdicts[0].baselines
    assert [item.outcome for item in baselines] == [BETTER, WORSE]
    (low, _), (_, high_end) = (item.bounds or (0.0, 0.0) for item in baselines)
    assert (low > 0, high_end <= 0) == (True, True)


def test_the_edge_and_few_updates_are_cautions(study: MakeStudy) -> None:
    found = study({"gdiff": 0.3}, rates=RISING)
    (edge,) = study_cautions(found)
    assert re.match(r"gdiff: .*edge .*1e-5 to 0\.001.*--lr 0\.01 .*--extend", edge)
    assert (found.sensitivity[0].best_lr, found.sensitivity[0].at_edge) == (1e-3, True)
    hardly = replace(found, verdicts=(replace(found.verdicts[0], updates=3.0),))
    assert re.match(r"gdiff: AutoLR clip/fresh .* 3 times .*--auto-lr-every", study_cautions(hardly)[1])


def test_if_the_start_decides_who_is_ahead_it_is_a_caution(make_sweep: MakeSweep, row: MakeRow) -> None:
    def of_starts(*volumes: float) -> LrStudy:
        rows = [
            row(volume, lr, seed, auto=auto, utility=0.8)
            for seed in range(3)
            for auto, arm in ((False, PEAK.values()), (True, volumes))
            for lr, volume in zip(PEAK, arm, strict=True)
        ]
        return read_study([make_sweep(rows, name=str(volumes[-1]))])

    apart = of_starts(0.9, 0.9, 0.25)
    assert apart.verdicts[0].of_starts == pytest.approx((0.9, 0.9, 0.25))
    (caution,) = study_cautions(apart)
    assert "0.900 from lr 1e-5, 0.900 from lr 1e-4, 0.250 from lr 0.001" in caution
    assert "0.450" in caution
    assert any("0.250 from lr 0.001" in line for line in words(apart.verdicts[0]))
    assert study_cautions(of_starts(0.9, 0.9, 0.5)) == ()  # ahead from every start


@pytest.mark.usefixtures("blank_figures")
def test_the_pages_headline_is_the_studys_answer(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [
        row(volume, lr, seed, auto=auto, utility=0.8, verbmem=0.5)
        for seed in range(3)
        for volume, lr, auto in ((0.1, 1e-5, False), (0.3, 1e-4, False), (0.4, 1e-3, False), (0.5, 1e-4, True))
    ]
    out = make_sweep(rows, settings={"kind": "lr-study", "sampler": "grid", "trials": 12})
    write_report(out)
    page, study = (out / "report.html").read_text(), read_study([out])
    answer = json.loads((out / "pareto.json").read_text())["answer"]
    lines = "\n".join(f"<li>{line}</li>" for line in study_lines(study))
    assert f"<h1>{study_title(study)}</h1>\n<ul>\n{lines}\n</ul>" in page
    assert [f'<p class="notice">{caution}' in page for caution in study_cautions(study)] == [True]
    assert page.index("<h1>") < page.index("Which checkpoint?") < page.index(answer["headline"])


# What the seeds vary ------------------------------------------------------------------------------------------------


def varied(make_sweep: MakeSweep, row: MakeRow, seeds_vary: str | None, **entries: object) -> LrStudy:
    """Every seed has its own target. On seed 1, the utility is half as high."""
    rows = [
        row(volume, lr, seed, auto=auto, utility=0.3 if seed == 1 else 0.6, target_key=f"key{seed}")
        for seed in range(3)
        for volume, lr, auto in [*((volume, lr, False) for lr, volume in PEAK.items()), (0.5, 1e-4, True)]
    ]
    return read_study([make_sweep(rows, name=str(seeds_vary), settings={"seeds_vary": seeds_vary}, **entries)])


@pytest.mark.parametrize("seeds_vary", ["target", "data", None])
def test_declared_targets_of_seeds_are_one_problem(make_sweep: MakeSweep, row: MakeRow, seeds_vary: str | None) -> None:
    verdicts = varied(make_sweep, row, seeds_vary).verdicts
    if seeds_vary is None:
        assert {item.task.problem.apart for item in verdicts} == {f"target key key{seed}" for seed in range(3)}
    else:
        (verdict,) = verdicts
        assert (verdict.tuning, verdict.fresh, verdict.task.problem.apart) == ((0,), (1, 2), "")
    assert verdicts[0].seeds_vary == (seeds_vary or "order")


def test_a_run_is_collapsed_against_the_target_of_its_own_seed(make_sweep: MakeSweep, row: MakeRow) -> None:
    """A utility of 0.3 is above 70% of 0.4, and below 70% of the mean 0.667."""
    before = {str(seed): {"utility": 0.4 if seed == 1 else 0.8} for seed in range(3)}
    found = varied(make_sweep, row, "target", baseline={"utility": 2 / 3}, baselines=before)
    assert found.verdicts[0].collapse.runs == 0
    alone = varied(make_sweep, row, "data", baseline={"utility": 2 / 3})
    assert alone.verdicts[0].collapse.runs == 1
