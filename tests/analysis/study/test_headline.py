"""The headline of a study, its cautions, its primary question, collapsed runs and missing verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from analysis.report.render import note_text
from analysis.report.report import write_report
from analysis.report.study_text import study_cautions, study_content, study_lines, study_title
from analysis.study.lr_study import LrStudy, fronts_table, read_study
from analysis.study.verdict import BETTER, UNDECIDED
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import FAILED, PEAK, RISING, table

MakeStudy = Callable[..., LrStudy]
Of = Callable[[int, bool], Row | None]


@pytest.fixture
def study(make_sweep: MakeSweep, row: MakeRow) -> MakeStudy:
    """``study({method: AutoLR's difference}, ...)``, by default on 30 seeds, 20 of them fresh."""

    def make(
        truths: dict[str, float], *, primary: str | None = None, rates: dict[float, float] = PEAK, name: str = "out"
    ) -> LrStudy:
        rows = [item for method, truth in truths.items() for item in table(row, truth, rates=rates, method=method)]
        settings = {"kind": "lr-study", "sampler": "grid", "primary": primary}
        return read_study([make_sweep(rows, name=name, settings=settings)])

    return make


@pytest.fixture
def study_by_seed(make_sweep: MakeSweep, row: MakeRow) -> MakeStudy:
    """30 seeds, 20 of them fresh. ``of(seed, auto)`` returns fields of a trial, or None if there is no such trial."""

    def make(of: Of) -> LrStudy:
        rows = []
        for seed in range(30):
            for volume, lr, auto in [*((v, lr, False) for lr, v in PEAK.items()), (0.95, 1e-4, True)]:
                fields = of(seed, auto)
                if fields is not None:
                    rows.append(row(volume, lr, seed, auto=auto, **({"utility": 0.8} | fields)))
        return read_study([make_sweep(rows)])

    return make


def outcomes(study: LrStudy) -> dict[str, str]:
    """Return the outcome against the best single rate for each method."""
    return {item.method_task.method: item.baselines[0].outcome for item in study.verdicts}


@pytest.mark.parametrize("primary", ["method3", "method3/gen-clip/fresh", " method3 "])
def test_a_primary_question_is_decided_while_correction_leaves_it_open(study: MakeStudy, primary: str) -> None:
    """For 20 differences of 0.24, the two-sided p-value is 0.02. Corrected for eight comparisons, it is 0.16."""
    truths = dict.fromkeys([f"method{index}" for index in range(8)], 0.24)
    assert set(outcomes(study(truths)).values()) == {UNDECIDED}
    found = study(truths, primary=primary, name="named")
    assert outcomes(found) == dict.fromkeys(truths, UNDECIDED) | {"method3": BETTER}
    single = {item.method_task.method: item.baselines[0] for item in found.verdicts}
    assert {name: (item.primary, item.comparisons) for name, item in single.items()} == {
        **dict.fromkeys(truths, (False, 7)),
        "method3": (True, 1),
    }
    assert study_lines(found)[0].startswith("method3 (the primary question)")


def test_studies_that_named_different_questions_have_none(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(volume, lr, seed) for seed in range(3) for lr, volume in PEAK.items()]
    named = (("a", "gdiff"), ("b", None))
    found = read_study([make_sweep(rows, name=name, settings={"primary": primary}) for name, primary in named])
    assert found.primary == ""
    assert found.notes[-1].facts == (("named", ("gdiff", "")),)


def test_the_answer_has_a_line_for_each_method(study: MakeStudy) -> None:
    found = study({"gdiff": 0.45, "ngdiff": 0.0})
    assert study_title(found) == "AutoLR against the best single lr: 1 better, 1 not shown to differ"
    lines = study_lines(found)
    assert [line.partition(":")[0] for line in lines] == ["gdiff", "ngdiff"]
    assert re.findall(r"\d+ collapsed runs of \d+", lines[0]) == ["0 collapsed runs of 20"] * 2
    assert study_cautions(found) == ()


def test_the_edge_and_few_updates_are_cautions(study: MakeStudy) -> None:
    found = study({"gdiff": 0.3}, rates=RISING)
    (edge,) = study_cautions(found)
    assert re.match(r"gdiff: .*edge .*1e-5 to 0\.001.*--lr 0\.01 .*--extend", edge)
    assert (found.sensitivity[0].best_lr, found.sensitivity[0].at_edge) == (1e-3, True)
    hardly = replace(found, verdicts=(replace(found.verdicts[0], updates=3.0),))
    assert re.match(r"gdiff: AutoLR gen-clip/fresh .* 3 times .*--auto-lr-every", study_cautions(hardly)[1])


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
    assert study_cautions(of_starts(0.9, 0.9, 0.5)) == ()  # ahead from every start


@pytest.mark.usefixtures("blank_figures")
def test_the_pages_headline_is_the_studys_answer(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = table(row, 0.1, seeds=range(3), rates=RISING, verbmem=0.5)
    out = make_sweep(rows, settings={"kind": "lr-study", "sampler": "grid", "trials": 12})
    write_report(out)
    page, study = (out / "report.html").read_text(), read_study([out])
    answer = json.loads((out / "pareto.json").read_text())["answer"]
    lines = "\n".join(f"<li>{line}</li>" for line in study_lines(study))
    assert f"<h1>{study_title(study)}</h1>\n<ul>\n{lines}\n</ul>" in page
    assert [f'<p class="notice">{caution}' in page for caution in study_cautions(study)] == [True]
    assert page.index("<h1>") < page.index("Which checkpoint?") < page.index(answer["headline"])


@pytest.mark.usefixtures("blank_figures")
def test_the_page_of_a_study_without_a_shared_seed_gives_the_reason_for_no_verdict(
    make_sweep: MakeSweep, row: MakeRow
) -> None:
    """On every seed, a trial failed at one of the three rates."""
    rows = [
        row(volume, lr, seed) | (FAILED if seed == index else {})
        for seed in range(3)
        for index, (lr, volume) in enumerate(PEAK.items())
    ]
    out = make_sweep(
        [*rows, row(0.5, 1e-4, 0, auto=True)], settings={"kind": "lr-study", "sampler": "grid", "trials": 10}
    )
    write_report(out)
    page = (out / "report.html").read_text()
    assert "<h1>No verdict for gdiff</h1>" in page
    assert "gdiff: no verdict, because there is no seed on which" in page


def test_a_run_is_collapsed_against_the_target_of_its_own_seed(make_sweep: MakeSweep, row: MakeRow) -> None:
    """On seed 1, the utility of 0.3 is above 70% of the seed's 0.4, and below 70% of the mean 0.667."""
    rows = [item for seed in range(3) for item in table(row, seeds=[seed], target_key=f"key{seed}")]
    rows = [item | {"utility": 0.3 if item["seed"] == 1 else 0.6} for item in rows]
    before = {str(seed): {"utility": 0.4 if seed == 1 else 0.8} for seed in range(3)}
    for vary, entries, collapsed in (("target", {"baselines": before}, 0), ("data", {}, 1)):
        out = make_sweep(rows, name=vary, settings={"seeds_vary": vary}, baseline={"utility": 2 / 3}, **entries)
        assert read_study([out]).verdicts[0].collapse.runs == collapsed


def test_of_a_target_without_any_utility_collapse_is_not_known(make_sweep: MakeSweep, row: MakeRow) -> None:
    rows = [row(0.4, 1e-4, seed, auto=auto, utility=0.0) for seed in range(3) for auto in (False, True)]
    (verdict,) = read_study([make_sweep(rows, baseline={"utility": 0.0})]).verdicts
    assert (verdict.collapse.of, verdict.collapse.runs_unknown) == (0, 2)


COLLAPSED = {"utility": 0.01}


@pytest.mark.parametrize(
    ("of", "auto", "hand", "other"),
    [
        # AutoLR's runs on tuning seeds are counted separately.
        (lambda seed, auto: COLLAPSED if seed == 29 and not auto else {}, (0, 20, 0), (1, 20, 0), (0, 10)),
        (lambda seed, auto: {"utility": 0.01 if seed < 15 else None} if auto else {}, (5, 5, 15), (0, 20, 0), (10, 10)),
        # On seed 29, the run at a fixed rate failed and the run with AutoLR collapsed.
        (lambda seed, auto: {29: COLLAPSED if auto else FAILED}.get(seed, {}), (0, 19, 0), (0, 19, 0), (1, 11)),
    ],
    ids=["by hand", "partly unknown", "a seed left out"],
)
def test_collapse_of_either_side_is_counted(
    study_by_seed: MakeStudy, of: Of, auto: tuple[int, int, int], hand: tuple[int, int, int], other: tuple[int, int]
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


@pytest.mark.parametrize(
    ("of", "lost", "fresh", "caution"),
    [
        (lambda seed, auto: FAILED if auto and seed >= 24 else {}, 6, 14, "6 of 20 fresh .*may be easier"),
        # If a seed was not run with AutoLR, it is not lost.
        (lambda seed, auto: None if auto and seed == 29 else {}, 0, 20, None),
        # No seed remains that could be easier.
        (lambda seed, auto: FAILED if auto and seed >= 10 else {}, 20, 10, "20 of 20 fresh .*has no result.$"),
    ],
    ids=["failed", "not run", "all"],
)
def test_lost_fresh_seeds_are_counted(
    study_by_seed: MakeStudy, of: Of, lost: int, fresh: int, caution: str | None
) -> None:
    found = study_by_seed(of)
    (verdict,) = found.verdicts
    assert (verdict.lost, len(verdict.fresh), verdict.same_seeds) == (lost, fresh, lost == 20)
    assert [bool(re.search(caution or "", line)) for line in study_cautions(found)] == [True] * bool(caution)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (lambda row: table(row, sides=[False]), "no_auto_lr"),
        (lambda row: table(row, sides=[True]), "no_fixed_rate"),
        (lambda row: table(row, sides=[False]) + table(row, sides=[True], seeds=range(30, 36)), "no_whole_seed"),
        (lambda row: [item | FAILED if item["lr"] == 1e-3 else item for item in table(row)], "no_whole_seed"),
        (lambda row: table(row) + table(row, sides=[False], c=0.9), "no_whole_seed"),
    ],
    ids=["no AutoLR", "no rate", "no common seed", "a rate failed", "AutoLR lacks a c"],
)
def test_the_reason_is_named(
    make_sweep: MakeSweep, row: MakeRow, rows: Callable[[MakeRow], list[Row]], why: str
) -> None:
    found = read_study([make_sweep(rows(row))])
    ((item,), (content,)) = found.no_verdicts, study_content(found)["without_verdict"]  # type: ignore[misc]
    assert item.why.code == why
    assert (content["method"], content["why"]) == ("gdiff", note_text(item.why))
    assert study_lines(found) == (f"gdiff: no verdict, because {content['why']}.",)


@pytest.mark.parametrize("primary", ["rmu", "gdiff/official/fresh"])
def test_a_primary_question_that_was_not_run_is_named(study: MakeStudy, primary: str) -> None:
    found = study({"gdiff": 0.0}, primary=primary)
    assert study_lines(found)[0].startswith(f"The primary question is about {primary}")
    assert study_lines(study({}, primary=primary, name="empty"))[0].startswith("No verdict: ")
    assert study_content(found)["primary"] == primary
