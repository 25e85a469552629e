"""The answer of a sweep: the same facts in pareto.json, on the page and from ``pick``, and advice from the table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.frontier.choice import choose_model
from analysis.frontier.frontier import frontier
from analysis.frontier.pareto_json import json_value
from analysis.report.answer import Answer, answer
from analysis.report.pick import judged_pick
from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, tables_of, trial

TARGET = {
    "forget_loss_capped": 0.04,
    "retain_loss": 0.05,
    "forget_fact_recall": 1.0,
    "retain_fact_recall": 0.9,
    "retain_repetition": 0.0,
    "forget_fluent": 1.0,
    "forget_refusals": 0.0,
    "forget_loops": 0.0,
}
ITEMS = dict.fromkeys(TARGET, 40)
IMAGES = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "forget_accuracy": 0.95, "retain_accuracy": 0.9}
GOOD = {"forget_fact_recall": 0.0, "retain_fact_recall": 0.85, "retain_repetition": 0.0}
KNOWN = {**GOOD, "forget_fact_recall": 0.9}
LOST = {**GOOD, "retain_fact_recall": 0.2}
NO_SCORES: dict[str, object] = dict.fromkeys(GOOD)
Scores = Mapping[str, object]


def answered(out: Path) -> Answer:
    table, sweep = tables_of(out)
    return answer(table, sweep, frontier(table.models, sweep.objectives), choose_model(table, sweep))


def swept(make_sweep: MakeSweep, *models: Scores, **entries: Any) -> Path:
    rows = [
        trial(str(index), 6.0 - 0.1 * index, 0.2 + 0.1 * index, **({"epochs": 6} | dict(values)))
        for index, values in enumerate(models)
    ]
    return make_sweep(rows, **({"baseline": TARGET, "items": ITEMS} | entries))


OUTCOMES = {
    "good": [GOOD, KNOWN],
    "loops": [{**GOOD, "forget_fluent": 0.25, "forget_refusals": 0.05, "forget_loops": 0.7}, KNOWN],
    "missed": [KNOWN, LOST],
    "not_known": [NO_SCORES],
}


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.parametrize("case", OUTCOMES)
def test_page_pareto_json_and_pick_hold_the_same_answer(make_sweep: MakeSweep, case: str) -> None:
    out = swept(make_sweep, *OUTCOMES[case])
    write_report(out)
    found, page = answered(out), (out / "report.html").read_text()
    (heading,) = re.findall("<h1>(.*?)</h1>", page)
    assert re.sub("</?b>", "", heading) == found.headline
    large = re.findall("<b>(.*?)</b>", heading)
    assert large == [found.recommendation or found.headline], "the name of the model is larger than what is said of it"
    content = json.loads((out / "pareto.json").read_text())["answer"]
    assert content == json_value(found.to_dict())
    assert content["outcome"] == {"loops": "good"}.get(case, case)
    assert content["criterion"] == "usable"
    assert (f"trial {content['trial_id']}" in content["headline"]) is content["recommended"]
    picked = judged_pick(*tables_of(out))
    assert (picked.row["trial_id"], picked.outcome) == (content["trial_id"], content["outcome"])
    assert set(picked.lines) <= set(found.judgement_lines)


def test_the_facts_of_the_answer(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, *OUTCOMES["loops"], NO_SCORES, never_saw={"forget_fact_recall": 0.05})
    content = answered(out).to_dict()
    assert content["forget_answers"] == {"fluent": 10, "refusal": 2, "loops": 28}
    assert "28 of 40 questions" in str(content["headline"])
    assert content["measured"] == {"epochs": 2, "of": 3}
    score = {"value": 0.0, "corrected": None, "low": None, "high": None, "target": 1.0, "never_saw": 0.05}
    scores = content["scores"]
    assert isinstance(scores, dict)
    assert scores["forget_fact_recall"] == score
    assert (content["ties"], content["confirmed"]) == ([], None)


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.parametrize("never_saw", [{}, {"forget_fact_recall": 0.0517}])
def test_the_page_shows_the_scores_of_a_model_that_never_saw_the_forget_set(
    make_sweep: MakeSweep, never_saw: Scores
) -> None:
    out = swept(make_sweep, *OUTCOMES["loops"], never_saw=never_saw)
    write_report(out)
    page = (out / "report.html").read_text()
    heading = '<th scope="col" class="n">never saw</th>' in page
    assert (heading, '<td class="n">0.0517</td>' in page) == (bool(never_saw), bool(never_saw))


@pytest.mark.parametrize(
    ("models", "options", "named"),
    [
        ([{**KNOWN, "lr": 1e-4}, {**LOST, "lr": 1e-2}], {"--lr", "--trials"}, ["1e-4", "0.01", "--lr 0.001"]),
        ([{**KNOWN, "lr": 1e-4}, {**KNOWN, "lr": 1e-3}], {"--lr", "--epochs"}, ["above 0.001", "now 6"]),
        ([{**KNOWN, "c": 0.5}, {**KNOWN, "c": 0.9}], {"--lr", "--epochs", "--c"}, ["--c, now 0.5 to 0.9"]),
        ([{**LOST, "lr": 1e-3}, {**LOST, "lr": 1e-2}], {"--lr", "--auto-lr", "--method"}, ["below 0.001"]),
        ([{**KNOWN, "lr": 1e-2}, {**LOST, "lr": 1e-3}], {"--lr", "--epochs", "--method"}, ["0.001 to 0.01"]),
        ([{**GOOD, "retain_repetition": 0.6}], {"--lr", "--auto-lr", "--method"}, ["below 1e-4"]),
        ([NO_SCORES], {"--metrics"}, []),
        ([GOOD], set(), []),
    ],
    ids=["a gap", "too low", "with c", "too high", "no gap", "not fluent", "not measured", "good"],
)
def test_advice_follows_from_the_table(
    make_sweep: MakeSweep, models: Sequence[Scores], options: set[str], named: Sequence[str]
) -> None:
    advice = answered(swept(make_sweep, *models)).advice
    assert set(re.findall(r"--[a-z-]+", advice)) == options
    assert not [text for text in named if text not in advice]


def test_the_settings_of_another_method_are_not_advised(make_sweep: MakeSweep) -> None:
    with_c = {**KNOWN, "method": "gdiff", "c": 0.5, "forget_fact_recall": 1.0}
    found = answered(swept(make_sweep, {**KNOWN, "method": "npo"}, with_c))
    assert (found.tried.method, found.tried.c) == ("npo", None)
    assert "--c" not in re.findall(r"--[a-z-]+", found.advice)


def test_advice_for_a_higher_rate_names_the_rate_at_which_trials_diverged(make_sweep: MakeSweep) -> None:
    diverged = [trial(name, None, None, lr=lr, status="diverged") for name, lr in (("1", 1e-3), ("2", 1e-2))]
    found = answered(make_sweep([trial("0", 0.9, 0.1, **KNOWN), *diverged], baseline=TARGET))
    assert found.tried.diverged_lr == 1e-3
    assert "0.001 diverged" in found.advice
    alone = answered(make_sweep(diverged, name="alone"))
    assert (alone.to_dict()["outcome"], alone.model, alone.statuses) == ("none", None, {"diverged": 2})
    assert ("2 diverged" in alone.headline, "--lr" in alone.advice) == (True, True)


def test_what_is_said_of_a_picked_model_is_about_that_model(make_sweep: MakeSweep) -> None:
    """The answer of the sweep is trial 0, but the knee is trial 1."""
    table, sweep = tables_of(swept(make_sweep, {**KNOWN, "retain_loss": 3.0}, LOST))
    picked = judged_pick(table, sweep, rule="knee")
    assert (picked.row["trial_id"], picked.outcome) == ("1", "missed")
    assert any("retain fact recall 0.2" in line for line in picked.lines)
    assert not [line for line in picked.lines if "0.9 (" in line]


@pytest.mark.parametrize(
    ("accuracies", "outcome", "trial_id"),
    [
        ([(0.0, 0.9), (0.0, 0.1)], "good", "0"),
        ([(0.0, 0.2), (0.0, 0.1)], "missed", "0"),
        ([(0.94, 0.9)], "missed", "0"),
        ([(0.8, 0.9)], "missed", "0"),
    ],
    ids=["one collapsed", "all collapsed", "unchanged", "between"],
)
def test_models_of_images_are_judged_by_their_accuracy(
    make_sweep: MakeSweep, accuracies: Sequence[tuple[float, float]], outcome: str, trial_id: str
) -> None:
    """The second model has the better losses but a low accuracy."""
    losses = [(7.0, 0.3), (7.9, 0.2)]
    rows = [
        trial(str(index), *losses[index], forget_accuracy=forget, retain_accuracy=retain)
        for index, (forget, retain) in enumerate(accuracies)
    ]
    found = answered(make_sweep(rows, baseline=IMAGES)).to_dict()
    assert (found["outcome"], found["trial_id"]) == (outcome, trial_id)


def test_success_on_some_seeds_only_is_reported_with_their_number(make_sweep: MakeSweep) -> None:
    rows = [trial(str(seed), 6.0, 0.2, **(GOOD, KNOWN)[seed], seed=seed) for seed in (0, 1)]
    other = trial("2", 1.0, 0.1, **KNOWN, lr=1e-5)
    assert answered(make_sweep([*rows, other], baseline=TARGET)).seeds == (1, 2)
    assert answered(make_sweep([rows[0], other], name="one", baseline=TARGET)).seeds is None


@pytest.mark.parametrize(
    ("forget", "warned"), [(0.03, True), (4.0, False), (None, False)], ids=["the loss fell", "the loss rose", "unknown"]
)
def test_an_answer_warns_if_nothing_was_gained(make_sweep: MakeSweep, forget: float | None, warned: bool) -> None:
    found = answered(make_sweep([trial("0", forget, 0.9, **GOOD)], baseline=TARGET))
    assert found.no_gain is warned


def test_the_thresholds_in_force_are_stated_with_their_source(make_sweep: MakeSweep) -> None:
    measured = [trial("0", 6.0, 0.5, verbmem=0.05, utility=0.8)]
    settings = {"criterion": "paper", "constraints": ["utility>=0.5"]}
    text = str(answered(make_sweep(measured, settings=settings)).to_dict()["thresholds"])
    assert "Criterion paper" in text
    assert ("utility at least 0.5 (stated)" in text, "verbmem below 0.1" in text) == (True, True)
