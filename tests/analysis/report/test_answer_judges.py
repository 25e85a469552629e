"""The answer judges before it recommends: by the thresholds stated, else the paper's, and by what was measured."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from optuna._hypervolume import compute_hypervolume

from analysis.frontier.assessment import assess
from analysis.frontier.frontier import frontier, takeable
from analysis.frontier.judgement import Outcome, choose_model, judge
from analysis.frontier.thresholds import thresholds_of
from analysis.report.answer import Answer, answer
from analysis.report.choice import choose
from analysis.report.report import write_report
from analysis.tables.columns import short
from analysis.words import number
from search_spaces.constraint import all_met
from tests.analysis.conftest import MakeSweep, tables_of, trial
from tests.analysis.report.answer_cases import BASELINE, CASES, KNOWN, NONE, Case, scores

IMAGES = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "forget_accuracy": 0.95, "retain_accuracy": 0.9}


def answered(out: Path) -> Answer:
    table, sweep = tables_of(out)
    return answer(table, sweep, frontier(table.models, sweep.objectives), choose_model(table, sweep))


def text_of(found: Answer) -> str:
    return " ".join((found.headline, found.advice, *found.judged)).lower()


def swept(make_sweep: MakeSweep, case: Case) -> Path:
    rows = [trial(str(i), forget, retain, **own) for i, (forget, retain, own) in enumerate(case.trials)]
    settings = {"base": {"model": "tiny-phi"}, "constraints": list(case.constraints)}
    return make_sweep(rows, baseline=case.baseline, settings=settings)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_answer_judges_before_it_recommends(make_sweep: MakeSweep, case: Case) -> None:
    out = swept(make_sweep, case)
    table, sweep = tables_of(out)
    rows, thresholds = takeable(table.own, sweep.objectives).trials, thresholds_of(sweep)
    judgement = judge(rows, thresholds, sweep.objectives)
    row = rows.loc[rows["trial_id"] == case.trial_id].iloc[0]
    assessment = assess(row, thresholds)
    held, verdicts = ({check.wanted: check.met for check in found} for found in (assessment.held, assessment.checks))
    decisive = judgement.decisive
    assert (judgement.outcome, judgement.unknown) == (case.outcome, case.side)
    assert (decisive and (str(decisive[0]), decisive[1])) == case.decisive
    assert {str(item) for item, met in held.items() if met is False} == case.misses
    assert {str(item) for item, met in held.items() if met is None} == set(case.unjudged)

    found = answered(out)
    text = text_of(found)
    assert found.model is not None
    assert (found.outcome, found.model.trial_id) == (case.outcome, case.trial_id)
    assert found.recommended is (case.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED))
    assert (f"trial {case.trial_id}" in found.headline) is found.recommended
    assert set(re.findall(r"--[a-z-]+", found.advice)) == case.advised
    assert (case.trial_id in {member.model.trial_id for member in found.members}) is case.on_frontier
    named = [short(item.name) for item, met in held.items() if met is not True]
    if decisive:
        named += [short(decisive[0].name), number(decisive[1]), decisive[0].words()]
    assert not [part for part in (*named, *case.named) if part.lower() not in text]

    # The table of metrics and the members of the frontier have the verdicts on the thresholds.
    columns = sweep.columns
    met = {name: all_met(verdicts[item] for item in thresholds.of(name)) for name in {item.name for item in verdicts}}
    shown = {score.column: score.met for score in found.scores if score.met is not None}
    scored = {name for name, value in met.items() if value is not None} & {*columns.metrics, *columns.losses}
    assert shown == {name: met[name] for name in scored}
    members = [member.met for member in found.members if member.model.trial_id == case.trial_id]
    assert members == [all_met(verdicts.values())] * case.on_frontier

    # The function behind "pick" agrees.
    chosen, judged = choose(table, sweep)
    assert (chosen.row["trial_id"], judged.outcome) == (case.trial_id, found.outcome)
    assert judged.recommended is found.recommended
    assert set(found.judged) - {found.reason} <= set(judged.lines)
    assert found.recommended or judged.lines[:2] == (found.headline, found.advice)


@pytest.mark.parametrize(
    ("accuracies", "outcome", "named"),
    [
        # The second trial is nearer to the ideal by its losses.
        ([(0.0, 0.9), (0.0, 0.1)], Outcome.NOT_JUDGED, ["retain accuracy", "0.9", "70%"]),
        ([(0.0, 0.2), (0.0, 0.1)], Outcome.LOST, ["retain accuracy", "0.2", "70%"]),
        ([(0.94, 0.9)], Outcome.NOTHING_FORGOTTEN, ["forget accuracy", "0.94", "95%"]),
        ([(0.8, 0.9)], Outcome.ONE_SIDED, ["forget accuracy", "0.8", "50%"]),
        ([(0.3, 0.9), (0.6, 0.9)], Outcome.NOT_JUDGED, ["forget accuracy", "0.3", "50%"]),
    ],
    ids=["one destroyed", "all destroyed", "untouched", "between", "one shown"],
)
def test_models_of_images_are_judged_by_their_accuracy(
    make_sweep: MakeSweep, accuracies: Sequence[tuple[float, float]], outcome: Outcome, named: Sequence[str]
) -> None:
    """By its losses alone, a model that gives no correct answer any more may look best."""
    losses = [(7.0, 0.3), (7.9, 0.2)]
    rows = [
        trial(str(i), *losses[i], **NONE, forget_accuracy=forget, retain_accuracy=retain)
        for i, (forget, retain) in enumerate(accuracies)
    ]
    found = answered(make_sweep(rows, baseline=IMAGES))
    assert found.model is not None
    assert (found.outcome, found.model.trial_id) == (outcome, "0")
    assert not [part for part in named if part not in text_of(found)]
    assert not found.thresholds.all


def test_success_on_some_seeds_only_is_reported_with_their_number(make_sweep: MakeSweep) -> None:
    rows = [trial(str(seed), 6.0, 0.2, **scores(verbmem, 0.79), seed=seed) for seed, verbmem in enumerate((0.05, 0.6))]
    other = trial("2", 1.0, 0.1, **KNOWN, lr=1e-5)
    assert answered(make_sweep([*rows, other], baseline=BASELINE)).seeds == (1, 2)
    assert answered(make_sweep([rows[0], other], name="one", baseline=BASELINE)).seeds is None


def test_advice_for_a_higher_rate_names_the_rate_at_which_trials_diverged(make_sweep: MakeSweep) -> None:
    diverged = [trial(name, None, None, lr=lr, status="diverged") for name, lr in (("1", 1e-3), ("2", 1e-2))]
    found = answered(make_sweep([trial("0", 0.9, 0.1, **KNOWN), *diverged], baseline=BASELINE))
    assert found.tried.diverged_lr == 1e-3
    assert "0.001 diverged" in found.advice
    alone = answered(make_sweep(diverged, name="alone"))
    assert (alone.outcome, alone.model, alone.statuses) == ("", None, {"diverged": 2})
    assert "--lr" in alone.advice


@pytest.mark.usefixtures("blank_figures")
def test_page_and_pareto_json_hold_the_same_answer(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, CASES[0])
    write_report(out)
    found, page = answered(out), (out / "report.html").read_text()
    assert f"<h1>{found.headline}</h1>" in page
    assert found.model is not None
    assert found.model.checkpoint in page
    # Three decades are one cost; of the scores the trial with 0.883 and 0.79 dominates the others.
    pareto = json.loads((out / "pareto.json").read_text())
    further = pareto["further_hypervolumes"]
    costs = [(1 - f / 8, math.log10(r / 0.008) / 3) for f, r in ((0.9, 0.1), (1.0, 0.12), (1.1, 0.14))]
    assert further["verbmem and utility"] == pytest.approx((1 - 0.883) * 0.79)
    assert further["log retain loss"] == pytest.approx(float(compute_hypervolume(np.array(costs), np.ones(2))))
    assert f"{further['verbmem and utility']:.4f}" in page
    assert pareto["answer"] == json.loads(json.dumps(found.to_dict()))
