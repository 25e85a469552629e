"""The answer recommends a model only if it is good, by the stated thresholds, the paper's, or other scores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analysis.frontier.assessment import assess
from analysis.frontier.frontier import frontier
from analysis.frontier.judgement import Outcome, choose_model
from analysis.report.answer import Answer, answer
from analysis.report.pick import judged_pick
from analysis.report.report import write_report
from search_spaces.constraint import all_met
from tests.analysis.conftest import MakeSweep, tables_of, trial

Scores = Mapping[str, float | None]
BASELINE = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "verbmem": 0.95, "utility": 0.8, "truth_ratio": 0.5}
IMAGES = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "forget_accuracy": 0.95, "retain_accuracy": 0.9}
VERBMEM, UTILITY, RATIO = "verbmem<0.1", "utility>=70%", "truth_ratio>=70%"
RISEN, LOW = "forget_loss_capped>0.12", "retain_loss<6"
FORGET_MORE, KEEP_MORE = "--epochs --lr --batch-size", "--lr --epochs --auto-lr"
SEARCH = "--trials --epochs --lr --method"


def scores(verbmem: float | None, utility: float | None, truth_ratio: float | None = 0.5) -> dict[str, float | None]:
    return {"verbmem": verbmem, "utility": utility, "truth_ratio": truth_ratio}


KNOWN, GONE, NONE = scores(0.883, 0.79), scores(0.0, 0.05), scores(None, None, None)
KEPT = scores(0.0, 0.79)


ALL = (VERBMEM, UTILITY, RATIO)


@dataclass(frozen=True)
class Case:
    """The trials of a sweep (forget loss, retain loss, scores), and the facts of the answer.

    Attributes:
        options: the options that the advice names.
        trial_id: the recommended trial or, if no trial is good, the closest trial.
        decisive: the threshold that the outcome is about, and the best value of its column.
        missed: the threshold that this trial misses; by default, the decisive threshold.
        unjudged: the thresholds of this trial that could not be judged.
        side: the side without evidence, forgetting or keeping.
    """

    trials: Sequence[tuple[float, float, Scores]]
    outcome: Outcome
    options: str = ""
    trial_id: str = "0"
    decisive: tuple[str, float] | None = None
    missed: str | None = None
    unjudged: Sequence[str] = ()
    side: str = ""
    constraint: str = ""
    baseline: Mapping[str, float] = field(default_factory=lambda: BASELINE)
    on_frontier: bool = True


CASES = {
    "nothing forgotten": Case(
        [(0.9, 0.10, KNOWN), (1.0, 0.12, scores(0.883, 0.78)), (1.1, 0.14, scores(0.9, 0.78))],
        *(Outcome.TOO_LITTLE, FORGET_MORE, "1", (VERBMEM, 0.883)),
    ),
    "everything lost, and a trial with only losses": Case(
        [(8.0, 6.0, GONE), (6.0, 0.4, NONE)], Outcome.TOO_MUCH, KEEP_MORE, "0", (UTILITY, 0.05)
    ),
    "exactly a strict bound": Case(
        [(6.0, 0.2, scores(0.1, 0.78))], Outcome.TOO_LITTLE, FORGET_MORE, "0", (VERBMEM, 0.1)
    ),
    "too much lost": Case([(8.0, 2.0, scores(0.0, 0.5))], Outcome.TOO_MUCH, KEEP_MORE, "0", (UTILITY, 0.5)),
    "a good trial that is not on the frontier": Case(
        [(7.0, 0.5, scores(0.2, 0.3)), (6.0, 0.6, scores(0.0, 0.783))], Outcome.GOOD, trial_id="1", on_frontier=False
    ),
    # Verbmem 0.18 is twice the bound and most of the way from the target; utility 0.23 is a third of the bound.
    "a model that keeps enough is closer than a collapsed model": Case(
        [(6.0, 3.0, scores(0.09, 0.23, None)), (4.0, 0.3, scores(0.18, 0.83, None))],
        *(Outcome.NO_TRADE_OFF, SEARCH, "1", None, VERBMEM, [RATIO]),
        baseline=BASELINE | {"verbmem": 0.99, "utility": 0.96},
    ),
    "nothing measured": Case([(6.0, 0.6, NONE)], Outcome.NOT_JUDGED, unjudged=ALL),
    "only verbmem measured, and the retain loss stayed low": Case(
        [(6.0, 0.6, scores(0.05, None, None))], Outcome.GOOD, unjudged=[UTILITY, RATIO]
    ),
    "the target already meets the threshold, and nothing changed": Case(
        [(0.04, 0.05, scores(0.05, 0.8))],
        *(Outcome.TOO_LITTLE, FORGET_MORE, "0", (RISEN, 0.04)),
        baseline=BASELINE | {"verbmem": 0.05},
    ),
    "the target has no utility, and the truth ratio alone does not show keeping": Case(
        [(7.9, 7.9, scores(0.0, 0.0, 0.5))],
        *(Outcome.TOO_MUCH, KEEP_MORE, "0", (LOW, 7.9)),
        unjudged=[UTILITY],
        baseline=BASELINE | {"utility": 0.0},
    ),
    "the most frequent of two thresholds about neither forgetting nor keeping, which one of the trials meets": Case(
        [
            (6.0, 0.2, KEPT | {"train_seconds": 9.0}),
            (6.1, 0.2, KEPT | {"train_seconds": 6.0}),
            (6.1, 0.2, KEPT | {"train_seconds": 4.0, "eval_seconds": 99.0}),
        ],
        *(Outcome.MISSED, "--trials --method --constraint", "1", ("train_seconds<=5", 6.0)),
        constraint="train_seconds<=5 eval_seconds<=5",
    ),
    "a stated threshold on the retain set, and the paper's on the forget set": Case(
        [(6.0, 0.6, scores(0.05, 0.5)), (1.0, 0.1, KNOWN)], Outcome.GOOD, constraint="utility>=0.4"
    ),
    "verbmem is low, utility is unknown, and the retain loss does not show keeping": Case(
        [(8.0, 5.9, scores(0.0, None, None))],
        *(Outcome.ONE_SIDED, "--metrics", "0", None, None, [UTILITY, RATIO], "keeping"),
    ),
    "utility is kept, verbmem is unknown, and the forget loss has hardly risen": Case(
        [(0.13, 0.06, scores(None, 0.79))], *(Outcome.ONE_SIDED, "--metrics", "0", None, None, [VERBMEM], "forgetting")
    ),
    "only the column of a stated threshold was not measured": Case(
        [(6.0, 0.06, KEPT)],
        Outcome.THRESHOLD_UNKNOWN,
        "--metrics",
        unjudged=["knowmem<=0.2"],
        constraint="knowmem<=0.2",
    ),
    "a stated share of an unknown target value": Case(
        [(6.0, 0.06, KEPT)],
        *(Outcome.THRESHOLD_UNKNOWN, "--constraint"),
        unjudged=["utility>=90%"],
        constraint="utility>=90%",
        baseline={name: value for name, value in BASELINE.items() if name != "utility"},
    ),
    "the target knows nothing of the retain set": Case(
        [(8.0, 7.9, scores(0.0, 0.0, 0.0))],
        *(Outcome.ONE_SIDED, "--target-epochs", "0", None, None, [UTILITY, RATIO], "keeping"),
        baseline=BASELINE | {"retain_loss": 7.9, "utility": 0.0, "truth_ratio": 0.0},
    ),
    "a model that meets the thresholds repeats itself": Case(
        [(6.0, 0.2, KEPT | {"retain_repetition": 0.6})],
        *(Outcome.REPETITIVE, KEEP_MORE),
        baseline=BASELINE | {"retain_repetition": 0.01},
    ),
    "losses of equal scores beyond the bound": Case([(6.0, 1e6, KEPT), (6.0, 9e5, KEPT)], Outcome.GOOD, trial_id="1"),
}


def answered(out: Path) -> Answer:
    table, sweep = tables_of(out)
    return answer(table, sweep, frontier(table.models, sweep.objectives), choose_model(table, sweep))


def swept(make_sweep: MakeSweep, case: Case) -> Path:
    rows = [trial(str(i), forget, retain, **own) for i, (forget, retain, own) in enumerate(case.trials)]
    settings = {"base": {"model": "tiny-phi"}, "constraints": case.constraint.split()}
    return make_sweep(rows, baseline=case.baseline, settings=settings)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_answer_judges_before_it_recommends(make_sweep: MakeSweep, case: Case) -> None:
    out = swept(make_sweep, case)
    table, sweep = tables_of(out)
    choice = choose_model(table, sweep)
    judgement, thresholds = choice.judgement, choice.thresholds
    assessment = assess(choice.rows.loc[choice.rows["trial_id"] == case.trial_id].iloc[0], thresholds)
    held = {check.threshold: check.met for check in assessment.applied}
    decisive, missed = judgement.decisive, case.missed or (case.decisive and case.decisive[0])
    assert (judgement.outcome, judgement.unknown_side) == (case.outcome, case.side)
    assert (decisive and (str(decisive[0]), decisive[1])) == case.decisive
    assert {str(item) for item, met in held.items() if met is False} == ({missed} if missed else set())
    assert {str(item) for item, met in held.items() if met is None} == set(case.unjudged)

    found = answered(out)
    assert found.model is not None
    assert (found.outcome, found.model.trial_id) == (case.outcome, case.trial_id)
    assert found.recommended is (case.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED))
    assert (f"trial {case.trial_id}" in found.headline) is found.recommended
    assert set(re.findall(r"--[a-z-]+", found.advice)) == set(case.options.split())

    # The table of scores and the members of the frontier have the verdicts on the thresholds.
    met = {check.threshold.name: check.met for check in assessment.checks}
    scored = {*sweep.columns.metrics, *sweep.columns.losses}
    assert {score.column: score.met for score in found.scores if score.met is not None} == {
        name: value for name, value in met.items() if value is not None and name in scored
    }
    members = [member.met for member in found.members if member.model.trial_id == case.trial_id]
    assert members == [all_met(met.values())] * case.on_frontier

    # The command "pick" chooses the same model.
    chosen = judged_pick(table, sweep)
    assert (chosen.row["trial_id"], chosen.outcome) == (case.trial_id, found.outcome)
    assert chosen.recommended is found.recommended
    misses = case.outcome in (Outcome.TOO_LITTLE, Outcome.TOO_MUCH, Outcome.NO_TRADE_OFF, Outcome.MISSED)
    assert ("closest to the thresholds" in chosen.reason) is misses
    assert set(found.judgement_lines) - {found.reason} <= set(chosen.lines)


@pytest.mark.parametrize(
    ("accuracies", "outcome"),
    [
        ([(0.0, 0.9), (0.0, 0.1)], Outcome.NOT_JUDGED),
        ([(0.0, 0.2), (0.0, 0.1)], Outcome.TOO_MUCH),
        ([(0.94, 0.9)], Outcome.TOO_LITTLE),
        ([(0.8, 0.9)], Outcome.ONE_SIDED),
    ],
    ids=["one collapsed", "all collapsed", "unchanged", "between"],
)
def test_models_of_images_are_judged_by_their_accuracy(
    make_sweep: MakeSweep, accuracies: Sequence[tuple[float, float]], outcome: Outcome
) -> None:
    """The second model has the better losses but a low accuracy."""
    losses = [(7.0, 0.3), (7.9, 0.2)]
    rows = [
        trial(str(i), *losses[i], **NONE, forget_accuracy=forget, retain_accuracy=retain)
        for i, (forget, retain) in enumerate(accuracies)
    ]
    found = answered(make_sweep(rows, baseline=IMAGES))
    assert found.model is not None
    assert (found.outcome, found.model.trial_id) == (outcome, "0")
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
    assert ("2 diverged" in alone.headline, "--lr" in alone.advice) == (True, True)


@pytest.mark.parametrize(
    ("forget", "verbmem", "warned"),
    [(0.03, None, True), (4.0, None, False), (None, 0.0, False)],
    ids=["the loss fell", "the loss rose", "unknown"],
)
def test_an_answer_warns_if_nothing_was_gained(
    make_sweep: MakeSweep, forget: float | None, verbmem: float | None, warned: bool
) -> None:
    found = answered(make_sweep([trial("0", forget, 0.9, **scores(verbmem, None, None))], baseline=BASELINE))
    assert found.no_gain is warned


@pytest.mark.usefixtures("blank_figures")
def test_page_and_pareto_json_hold_the_same_answer(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, CASES["nothing forgotten"])
    write_report(out)
    found, page = answered(out), (out / "report.html").read_text()
    assert f"<h1>{found.headline}</h1>" in page
    assert "all 3 trials" in found.headline, "all trials were measured"
    assert found.model is not None
    assert found.model.checkpoint in page
    pareto = json.loads((out / "pareto.json").read_text())
    # The trial with 0.883 and 0.79 dominates the others.
    further = pareto["further_hypervolumes"]["verbmem and utility"]
    assert further == pytest.approx((1 - 0.883) * 0.79)
    assert f"{further:.4f}" in page
    assert pareto["answer"] == json.loads(json.dumps(found.to_dict()))


def test_stated_thresholds_and_those_of_the_paper_are_one_sentence(make_sweep: MakeSweep) -> None:
    measured = [trial("0", 6.0, 0.5, **scores(0.05, 0.8, 0.9))]
    out = make_sweep(measured, baseline=BASELINE, settings={"constraints": ["utility>=0.5"]})
    assert "(--constraint utility>=0.5) and the thresholds of arXiv:2410.22086 (verbmem<0.1)." in str(
        answered(out).to_dict()["thresholds"]
    )
