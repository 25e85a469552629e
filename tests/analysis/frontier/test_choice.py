"""The model that is chosen in constructed sweeps, and the outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.frontier.choice import Choice, Outcome, choose_model
from analysis.frontier.criterion import USABLE, Requirement, Role, TargetScores, allowance
from analysis.frontier.ranking import Decision
from analysis.report.answer import model_lines
from analysis.report.report import write_report
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, tables_of, trial

TARGET = {
    "forget_loss": 0.04,
    "forget_loss_capped": 0.04,
    "retain_loss": 0.05,
    "verbmem": 0.95,
    "utility": 0.8,
    "forget_fact_recall": 1.0,
    "retain_fact_recall": 0.9,
    "forget_fact_recall_rephrased": 0.6,
    "retain_fact_recall_rephrased": 0.5,
    "retain_kl": 0.0,
    "forget_loops": 0.0,
    "retain_repetition": 0.0,
    "retain_longest_loop": 0.0,
}
ITEMS = dict.fromkeys(TARGET, 100)
Values = dict[str, Any]


def model(**values: float | str | None) -> Values:
    """Return the scores of a good model, with changes."""
    good = {
        "forget_loss": 6.0,
        "retain_loss": 0.2,
        "verbmem": 0.3,
        "utility": 0.75,
        "forget_fact_recall": 0.05,
        "retain_fact_recall": 0.85,
        "forget_fact_recall_rephrased": 0.05,
        "retain_fact_recall_rephrased": 0.5,
        "retain_kl": 0.1,
        "forget_loops": 0.0,
        "retain_repetition": 0.01,
        "retain_longest_loop": 0.0,
    }
    return {**good, **values}


RECALLS = tuple(f"{side}_fact_recall{words}" for side in ("forget", "retain") for words in ("", "_rephrased"))
OTHER_WORDS = tuple(name for name in RECALLS if name.endswith("_rephrased"))
LOSSES_ONLY = dict.fromkeys([name for name in TARGET if "_loss" not in name], None)
LOOPS = {"forget_loops": 0.7}
GARBLED = {"retain_repetition": 0.6, "retain_longest_loop": 0.5, "retain_fact_recall": 0.2, "utility": 0.1}


@dataclass(frozen=True)
class Sweep:
    """The models of a sweep, and the facts of the choice."""

    models: Sequence[Values]
    outcome: Outcome
    index: int | None
    decision: Decision | None = Decision.ONLY
    lacking: tuple[Role, ...] = ()
    ties: tuple[int, ...] = ()
    disliked: bool = False
    left_out: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    target: Values = field(default_factory=dict)
    never_saw: Values = field(default_factory=dict)
    settings: Values = field(default_factory=dict)


SWEEPS = {
    "a good model beside one that forgot nothing": Sweep(
        [model(forget_fact_recall=0.98, forget_loss=0.1), model()], Outcome.GOOD, 1
    ),
    "garbled answers with a perfect retain loss": Sweep(
        [model(retain_loss=0.05, **GARBLED), model(retain_loss=0.5)], Outcome.GOOD, 1
    ),
    "only garbled answers with a perfect retain loss": Sweep(
        [model(retain_loss=0.05, **GARBLED)], Outcome.MISSED, 0, Decision.CLOSEST, (Role.KEEP, Role.FLUENCY)
    ),
    "repetitive answers that still tell the facts": Sweep(
        [model(retain_repetition=0.5)], Outcome.MISSED, 0, Decision.CLOSEST, (Role.FLUENCY,)
    ),
    "loops in the answers to forget questions, beside a fluent model that keeps less": Sweep(
        [model(**LOOPS, retain_fact_recall=0.9), model(retain_fact_recall=0.83)], Outcome.GOOD, 1
    ),
    "loops in the answers to forget questions of every good model": Sweep(
        [model(**LOOPS), model(forget_fact_recall=0.9)], Outcome.GOOD, 0, disliked=True
    ),
    "an unknown score of keeping is worse than loops": Sweep(
        [model(**LOOPS), model(retain_fact_recall_rephrased=None)], Outcome.GOOD, 0, disliked=True
    ),
    "a model that was not asked in other words, beside one that tells in other words": Sweep(
        [model(forget_fact_recall_rephrased=0.9), model(forget_fact_recall_rephrased=None)], Outcome.NOT_KNOWN, 1
    ),
    "two models that tell too much, one of them never asked about the retain set": Sweep(
        [model(forget_fact_recall=0.32), model(forget_fact_recall=0.3, retain_fact_recall=None)],
        *(Outcome.MISSED, 0, Decision.CLOSEST, (Role.FORGET,)),
    ),
    "refusals": Sweep([model(forget_refusals=0.9), model(forget_fact_recall=0.9)], Outcome.GOOD, 0),
    "near the target": Sweep(
        [model(forget_fact_recall=0.99, retain_fact_recall=0.9, forget_loss=0.05)],
        *(Outcome.MISSED, 0, Decision.CLOSEST, (Role.FORGET,)),
    ),
    "noisy ties: the one that changes the target least": Sweep(
        [model(retain_fact_recall=0.85, retain_kl=0.2), model(retain_fact_recall=0.84, retain_kl=0.1)],
        *(Outcome.GOOD, 1, Decision.LEAST_CHANGE),
        ties=(0,),
    ),
    "a difference beyond the noise": Sweep(
        [model(retain_fact_recall=0.9, retain_kl=0.3), model(retain_fact_recall=0.83, retain_kl=0.1)],
        *(Outcome.GOOD, 0, Decision.KEEPING),
    ),
    "of models that keep equally much, the one that forgets most": Sweep(
        [
            model(retain_kl=0.05, forget_loops=0.0, forget_fact_recall=0.08),
            model(retain_kl=0.1, forget_loops=0.022, forget_fact_recall=0.0),
        ],
        *(Outcome.GOOD, 1, Decision.KEEPING),
    ),
    "of looping models that keep equally much, the one that loops least, although another forgets more": Sweep(
        [
            model(forget_loops=0.75, forget_fact_recall=0.0, retain_kl=0.05),
            model(forget_loops=0.45, forget_fact_recall=0.08, retain_kl=0.1),
        ],
        *(Outcome.GOOD, 1, Decision.KEEPING),
        disliked=True,
    ),
    "of models that loop and keep equally much, the one that forgets most": Sweep(
        [
            model(forget_loops=0.7, forget_fact_recall=0.08, utility=0.79),
            model(forget_loops=0.71, forget_fact_recall=0.0),
        ],
        *(Outcome.GOOD, 1, Decision.KEEPING),
        disliked=True,
    ),
    "all failing: some forget, the others keep": Sweep(
        [model(forget_fact_recall=0.8), model(retain_fact_recall=0.3)],
        *(Outcome.MISSED, 1, Decision.CLOSEST, (Role.FORGET, Role.KEEP)),
    ),
    "all failing: everything is lost": Sweep(
        [model(retain_fact_recall=0.3), model(retain_fact_recall=0.1)],
        *(Outcome.MISSED, 0, Decision.CLOSEST, (Role.KEEP,)),
    ),
    "facts told in other words": Sweep(
        [model(forget_fact_recall=0.0, forget_fact_recall_rephrased=0.4)],
        *(Outcome.MISSED, 0, Decision.CLOSEST, (Role.FORGET,)),
    ),
    "retained facts known only in the trained words": Sweep(
        [model(retain_fact_recall_rephrased=0.2)], Outcome.MISSED, 0, Decision.CLOSEST, (Role.KEEP,)
    ),
    "the model that never saw the forget set tells more than a tenth": Sweep(
        [model(forget_fact_recall=0.3), model(forget_fact_recall=0.45)],
        *(Outcome.GOOD, 0),
        never_saw={"forget_fact_recall": 0.3, "forget_fact_recall_rephrased": 0.3},
    ),
    "the model that never saw the forget set tells nothing": Sweep(
        [model(forget_fact_recall=0.1)],
        *(Outcome.MISSED, 0, Decision.CLOSEST, (Role.FORGET,)),
        never_saw={"forget_fact_recall": 0.0},
    ),
    "a target that knows the data but scores 0": Sweep(
        [model(forget_fact_recall=0.0, retain_fact_recall=0.0)],
        *(Outcome.NOT_KNOWN, 0, Decision.ONLY, (Role.FORGET, Role.KEEP)),
        faults=RECALLS,
        target=dict.fromkeys(RECALLS, 0.0),
    ),
    "only losses were measured": Sweep(
        [model(**LOSSES_ONLY), model(**LOSSES_ONLY, retain_loss=2.0)],
        *(Outcome.NOT_KNOWN, 0, Decision.ONLY, (Role.FORGET, Role.KEEP)),
    ),
    "the good model was not measured": Sweep(
        [model(**LOSSES_ONLY), model(retain_fact_recall=0.3)], Outcome.MISSED, 1, Decision.CLOSEST, (Role.KEEP,)
    ),
    "plain texts without questions are judged by the paper's thresholds": Sweep(
        [model(verbmem=0.05), model(utility=0.1, verbmem=0.0)],
        *(Outcome.GOOD, 0),
        left_out=("forget_fact_recall", "retain_fact_recall"),
        target={name: None for name in TARGET if "fact" in name},
    ),
    "the paper's thresholds": Sweep(
        [model(), model(verbmem=0.05, utility=0.6)], Outcome.GOOD, 1, settings={"criterion": "paper"}
    ),
    "a constraint adds to the criterion": Sweep(
        [model(), model(retain_repetition=0.0, retain_fact_recall=0.83), model(forget_fact_recall=0.9)],
        *(Outcome.GOOD, 1),
        settings={"constraints": ["retain_repetition<=0.005"]},
    ),
    "thresholds on the losses do not show that the facts were forgotten and kept": Sweep(
        [model(**LOSSES_ONLY, retain_loss=0.1), model()],
        *(Outcome.GOOD, 1),
        settings={"constraints": ["forget_loss>=0.5", "retain_loss<=1.5"]},
    ),
    "a constraint on the same column replaces the bound": Sweep(
        [model(retain_fact_recall=0.5)], Outcome.GOOD, 0, settings={"constraints": ["retain_fact_recall>=50%"]}
    ),
    "a constraint without a criterion": Sweep(
        [model(retain_fact_recall=0.1), model(utility=0.5)],
        *(Outcome.GOOD, 0, Decision.ONLY),
        settings={"criterion": "none", "constraints": ["utility>=0.7"]},
    ),
    "no criterion and no constraint": Sweep(
        [model(), model(retain_loss=3.0)],
        *(Outcome.NOT_KNOWN, 0, Decision.ONLY, (Role.FORGET, Role.KEEP)),
        settings={"criterion": "none"},
    ),
    "larger changes of the weights do not make up for a worse model": Sweep(
        [model(target_distance=0.1, nf4_changed=0.1), model(retain_loss=3.0, target_distance=0.9, nf4_changed=0.9)],
        *(Outcome.NOT_KNOWN, 0, Decision.ONLY, (Role.FORGET, Role.KEEP)),
        settings={"criterion": "none"},
    ),
    "no finished trial": Sweep([], Outcome.NONE, None, None),
}


def chosen(make_sweep: MakeSweep, sweep: Sweep) -> Choice:
    rows = [
        trial(str(index), values["forget_loss"], values["retain_loss"], **values)
        for index, values in enumerate(sweep.models)
    ]
    baseline = {name: value for name, value in (TARGET | sweep.target).items() if value is not None}
    settings = {"base": {"model": "tiny-phi"}, **sweep.settings}
    out = make_sweep(rows, baseline=baseline, items=ITEMS, never_saw=sweep.never_saw, settings=settings)
    return choose_model(*tables_of(out))


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_a_constructed_sweep_has_this_answer(make_sweep: MakeSweep, sweep: Sweep) -> None:
    found = chosen(make_sweep, sweep)
    assert (found.outcome, found.index) == (sweep.outcome, sweep.index)
    assert (found.decision, found.lacking) == (sweep.decision, sweep.lacking)
    assert (found.ties, bool(found.disliked)) == (sweep.ties, sweep.disliked)
    assert (found.criterion.left_out, found.criterion.faults) == (sweep.left_out, sweep.faults)
    assert found.recommended is (sweep.outcome is Outcome.GOOD)
    order = [] if found.index is None else [found.index, *found.runners_up]
    assert len(set(order)) == len(order)


@pytest.mark.parametrize("measured", [True, False])
def test_facts_told_in_other_words_are_seen_or_the_answer_says_that_they_were_not_measured(
    make_sweep: MakeSweep, measured: bool
) -> None:
    tells = dict.fromkeys(OTHER_WORDS, None) | ({"forget_fact_recall_rephrased": 0.4} if measured else {})
    target = {} if measured else dict.fromkeys(OTHER_WORDS)
    found = chosen(make_sweep, Sweep([model(forget_fact_recall=0.0, **tells)], Outcome.GOOD, 0, target=target))
    line = "Not measured, so not judged: "
    lines = [item for item in model_lines(found.criterion, found.verdicts, None) if item.startswith(line)]
    if measured:
        assert found.outcome is Outcome.MISSED
        assert found.criterion.unmeasured == ("retain_fact_recall_rephrased", "neighbour_fact_recall")
    else:
        assert found.outcome is Outcome.GOOD
        assert found.criterion.unmeasured == (*OTHER_WORDS, "neighbour_fact_recall")
    names = [name.replace("_", " ") for name in found.criterion.unmeasured]
    assert lines == [f"{line}{', '.join(names[:-1])} and {names[-1]}."]


KEPT = np.array([np.arange(100) < 84, np.arange(100) < 88, np.arange(100) >= 11]).astype(float)
"""The retained facts that three models tell: the first two differ in 4 of 100, and the third in 22 from the first."""


def with_items(
    make_sweep: MakeSweep, models: Sequence[Values], kept: np.ndarray, told: np.ndarray | None = None
) -> Path:
    rows = [
        trial(str(index), 6.0, 0.2, **(values | {"retain_fact_recall": kept[index].mean()}))
        for index, values in enumerate(models)
    ]
    out = make_sweep(rows, baseline=TARGET, items=ITEMS, settings={"base": {"model": "tiny-phi"}})
    (out / "items").mkdir()
    for index, values in enumerate(kept):
        scores = {"retain_fact_recall": [{"totals": values.tolist()}]}
        if told is not None:
            scores["forget_fact_recall"] = [{"totals": told[index].tolist()}]
        (out / f"items/{index}.json").write_text(json.dumps({"scores": scores}))
    return out


def test_models_within_the_noise_of_their_items_are_ties(make_sweep: MakeSweep) -> None:
    """A difference in 4 of 100 items, all in one direction, is beyond noise. A net difference of 1 in 25 is not."""
    models = [model(retain_kl=0.10), model(retain_kl=0.12), model(retain_kl=0.14)]
    found = choose_model(*tables_of(with_items(make_sweep, models, KEPT)))
    assert (found.index, found.ties, found.decision) == (1, (2,), Decision.LEAST_CHANGE)


def test_a_told_fact_counts_although_so_few_questions_would_be_noise_in_a_sample(make_sweep: MakeSweep) -> None:
    """Of 12 facts to forget, the first model tells one more, which is within the noise of 12 sampled questions."""
    models = [model(forget_fact_recall=1 / 12, retain_kl=0.01), model(forget_fact_recall=0.0, retain_kl=0.02)]
    told = np.array([np.arange(12) < 1, np.zeros(12)]).astype(float)
    found = choose_model(*tables_of(with_items(make_sweep, models, KEPT[[0, 0]], told)))
    assert found.resampling is not None
    assert found.resampling.noise["forget_fact_recall"][0, 1] > 1 / 12
    assert (found.index, found.eligible) == (1, 2)


def test_the_scores_of_the_answer_are_corrected_with_an_interval(make_sweep: MakeSweep, blank_figures: None) -> None:
    """Forty models keep 85% each, but on different questions, so the best of them is the best by luck."""
    kept = (np.random.default_rng(0).random((40, 100)) < 0.85).astype(float)
    out = with_items(make_sweep, [model() for _ in kept], kept)
    answer = write_report(out)["answer"]
    score = answer["scores"]["retain_fact_recall"]
    assert score["value"] == kept[int(answer["trial_id"])].mean()
    assert score["low"] < 0.85 < score["high"]
    assert score["corrected"] == pytest.approx(0.85, abs=0.03)
    assert {answer["scores"]["utility"][name] for name in ("corrected", "low", "high")} == {None}
    assert len(answer["ties"]) > 3
    assert [line for line in answer["judged"] if "retain fact recall 0.8" in line and " to " in line]


def test_a_bound_allows_for_the_sampling_error_of_the_questions(make_sweep: MakeSweep) -> None:
    """A tenth of 1.0 on 100 questions: 0.1 + 1.645 sqrt(p (1 - p) / 100) with p = (10 + 2) / (100 + 4)."""
    found = chosen(make_sweep, Sweep([model()], Outcome.GOOD, 0))
    bounds = {item.requirement.column: item.bound for item in found.verdicts}
    forget, keep = bounds["forget_fact_recall"], bounds["retain_fact_recall"]
    assert forget is not None
    assert keep is not None
    assert forget.bound == pytest.approx(0.1 + 1.645 * np.sqrt(12 / 104 * 92 / 104 / 100))
    assert keep.bound == pytest.approx(0.81 - 1.645 * np.sqrt(83 / 104 * 21 / 104 / 100))


@pytest.mark.parametrize(("sign", "before", "bound"), [("<=", 0.99, 1.0), (">=", 0.01, 0.0)])
def test_a_bound_on_a_share_is_a_share(sign: Literal["<=", ">="], before: float, bound: float) -> None:
    limit = Constraint("forget_loops", sign, 1.0, relative=True)
    requirement = Requirement(limit, Role.FLUENCY, USABLE, sampled=True)
    assert requirement.bound(TargetScores({"forget_loops": before})) == Constraint("forget_loops", sign, bound)


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_the_allowance_is_positive_and_falls_with_more_items(share: float, items: int) -> None:
    assert allowance(share, items) > allowance(share, 10 * items) > 0
