"""The sentences of a study, its file lr_study.json, and the studies that are refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.report.report import write_report
from analysis.report.study_text import (
    study_cautions,
    study_content,
    study_lines,
    study_problems,
    study_title,
    verdict_lines,
    write_study,
)
from analysis.study.lr_study import read_study
from tests.analysis.conftest import BASELINE, MakeSweep, Row
from tests.analysis.study.conftest import COLLAPSED, FAILED, PEAK, RISING, RULE, MakeStudy, auto, hand, only, run

KEYS = (
    "method", "rule", "task", "seeds_vary", "outcome", "success", "collapse", "quality", "equivalence", "cost",
    "updates", "detectable", "rates", "headline",
)  # fmt: skip


def test_the_first_sentence_names_rule_method_model_data_seeds_both_endpoints_and_cost(study: MakeStudy) -> None:
    utilities = dict(zip((1e-5, 3e-5, 1e-4, 3e-4, 1e-3), (0.5, 0.6, 0.70, 0.6, 0.5), strict=True))
    lost = {3: COLLAPSED, 4: COLLAPSED}
    rows = hand(utilities, of=lambda seed: COLLAPSED if seed == 9 else {})
    rows += auto(0.01, of=lambda seed: lost.get(seed, {}), lr_updates=15, lr_updates_accepted=11)
    found = study(rows, seeds_vary="target")
    assert study_lines(found)[0].startswith(
        "gen (Eq. 8, same batch, every 10 steps; 220 of 300 updates accepted) against the best of 5 fixed rates: "
        "ngdiff, tiny-phi on authors, 20 seeds of order and target: success 0.90 against 0.95, collapsed 2 against 1 "
        "of 20, utility +0.01 [0.00, 0.01]; one run against five. undecided: gen collapsed more often"
    )
    assert study_content(found)["verdicts"][0]["headline"] == verdict_lines(only(found))[0]  # type: ignore[index]


def test_lr_study_json_has_the_facts_of_each_verdict(study: MakeStudy, tmp_path: Path) -> None:
    found = study(hand() + auto(0.06))
    write_study(tmp_path / "lr_study.json", found)
    (content,) = json.loads((tmp_path / "lr_study.json").read_text())["verdicts"]
    assert tuple(content) == KEYS
    assert (content["method"], content["rule"], content["outcome"]) == ("ngdiff", "gen", "better")
    assert (content["task"]["model"], content["task"]["dataset"]) == ("tiny-phi", "authors")
    for name in ("success", "collapse", "cost"):
        assert set(content[name]) == {"auto", "hand"}
    assert content["success"]["auto"] == {"share": 1.0, "low": pytest.approx(0.8316, abs=1e-4), "high": 1.0}
    assert content["collapse"]["hand"] == {"runs": 0, "of": 20}
    assert (content["quality"]["measure"], content["quality"]["seeds"]) == ("utility", 20)
    assert content["updates"] == {"accepted": 40, "of": 60}
    assert content["equivalence"]["margin"] == 0.02
    assert [rate["lr"] for rate in content["rates"]] == list(PEAK)
    with (tmp_path / "lr_study.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    assert {(row["rule"], row["collapsed"], row["success"]) for row in rows} == {
        ("off", "False", "True"), ("gen/same", "False", "True"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        (hand() + auto(0.06), "gen is better than every fixed rate"),
        (hand() + auto(), "gen is as good as the best fixed rate"),
        (hand() + auto(-0.1), "gen is worse than the best fixed rate"),
        (hand(RISING) + auto(), "Nothing is shown about gen against the best fixed learning rate"),
        (hand(), "No verdict for ngdiff"),
        (
            hand() + auto(0.06) + auto(-0.1, auto_lr="curvature"),
            "Automatic against hand-tuned learning rates: 1 better, 1 worse",
        ),
    ],
    ids=["better", "as good", "worse", "edge", "no rule", "two rules"],
)
def test_the_title_is_the_answer(study: MakeStudy, rows: list[Row], title: str) -> None:
    assert study_title(study(rows)) == title


def test_what_weakens_a_result_is_a_caution(study: MakeStudy) -> None:
    rows = hand({1e-4: 0.7, 1e-3: 0.6}, of=lambda seed: FAILED if seed == 2 else {})
    found = study(rows + auto(lr_updates=0, lr_updates_accepted=0))
    assert "no update was due" in study_lines(found)[0]
    assert "undecided: gen never changed its rate" in study_lines(found)[0]
    cautions = study_cautions(found)
    assert [re.search(text, line) is not None for text, line in zip(
        ("seed 2 left out", "fewer than three fixed rates"), cautions, strict=True
    )] == [True] * 2  # fmt: skip
    assert study_cautions(study(hand() + auto())) == ()
    copies = [row | {"seed": seed} for seed in range(3) for row in [*hand(seeds=[0]), *auto(seeds=[0])]]
    assert study_cautions(study(hand() + auto() + copies)) == ()  # a repeated trial is a note, and no copy of a seed


def test_a_quality_is_described_as_conditional(study: MakeStudy) -> None:
    verdict = only(study(hand() + auto(0.02, of=lambda seed: COLLAPSED if seed < 3 else {})))
    (line,) = [line for line in verdict_lines(verdict) if "at the thresholds" in line]
    assert "17 of 20 seeds where neither side collapsed, so this difference does not include collapses" in line


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (hand(interpolate="off") + auto(interpolate="on"), ["interpolate is on for gen/same and off"]),
        (
            hand(lr_decay="none", on_divergence="stop") + auto(lr_decay="linear", on_divergence="restart"),
            ["lr decay is linear for gen/same and none", "on divergence is restart for gen/same and stop"],
        ),
        (hand(max_steps=10) + auto(max_steps=20), ["max steps is 20 for gen/same and 10"]),
        (hand(), ["nothing to compare", "no run with AutoLR"]),
        (auto(), ["nothing to compare", "no run has a fixed learning rate"]),
        (
            hand(seeds=range(5)) + auto(seeds=range(5)),
            ["5 seeds cannot decide 1 comparison", "at least 6", "--describe"],
        ),
    ],
    ids=["interpolation", "decay and restart", "steps", "no rule", "no fixed rate", "five seeds"],
)
def test_a_study_without_an_answer_is_refused(study: MakeStudy, rows: list[Row], expected: list[str]) -> None:
    problems = " ".join(study_problems(study(rows)))
    assert [text in problems for text in expected] == [True] * len(expected), problems


def test_a_study_that_only_describes_may_have_few_seeds(study: MakeStudy) -> None:
    found = study(hand(seeds=range(2)) + auto(0.06, seeds=range(2)))
    assert study_problems(found, describe=True) == study_problems(study(hand()), describe=True) == ()
    assert study_problems(study(hand() + auto())) == ()


def test_studies_on_different_tasks_are_not_merged(make_sweep: MakeSweep) -> None:
    folders = [
        make_sweep(hand(dataset=name) + auto(dataset=name), name=name, baseline=BASELINE)
        for name in ("authors", "tofu")
    ]
    with pytest.raises(AnalysisError, match=r"different tasks \(tiny-phi, authors; tiny-phi, tofu\).*--from DIR"):
        read_study(folders)


def test_studies_that_named_different_questions_have_none(study: MakeStudy, make_sweep: MakeSweep) -> None:
    rows = hand() + auto()
    found = read_study([make_sweep(rows, name=name or "none", settings={"primary": name}) for name in ("ngdiff", None)])
    assert (found.primary, found.notes[-1].facts) == ("", (("named", ("ngdiff", "")),))
    missing = study(rows, primary="rmu")
    assert study_lines(missing)[0].startswith("The primary comparison is rmu, but")


@pytest.mark.usefixtures("blank_figures")
def test_the_pages_headline_is_the_studys_answer(make_sweep: MakeSweep) -> None:
    settings = {"kind": "lr-study", "sampler": "grid", "trials": 80}
    out = make_sweep(hand() + auto(0.06), settings=settings, baseline=BASELINE | {"truth_ratio": 0.8})
    write_report(out)
    page, found = (out / "report.html").read_text(), read_study([out])
    lines = "\n".join(f"<li>{line}</li>" for line in study_lines(found))
    assert f"<h1><b>{study_title(found)}</b></h1>\n<ul>\n{lines}\n</ul>" in page
    assert (out / "figures" / "tuning-curve_tiny-phi_authors_ngdiff_gen-same.png").exists()


def test_if_the_target_has_no_utility_collapse_is_unknown_and_there_is_no_verdict(study: MakeStudy) -> None:
    rows = [run(0.0, lr, seed, **fields) for seed in range(3) for lr in PEAK for fields in ({}, RULE)]
    found = study(rows, entries={"baseline": {"utility": 0.0}})
    assert {facts.collapsed for facts in found.runs} == {None}
    assert [item.why.code for item in found.no_verdicts] == ["no_whole_seed"]
