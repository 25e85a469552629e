"""Questions are answered as in the metrics: the same prompt, greedy decoding and length."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from tests.trainables.scoring.conftest import make_evaluator as make_evaluator  # a fixture
from trainables.data import DataError, load_data
from trainables.data.examples import Example
from trainables.target.interview import Interview, Known
from trainables.target.target import Target


@pytest.fixture
def interview(target: Target) -> Interview:
    return Interview(target, batch_size=5, device="cpu")


def test_the_answers_are_those_of_the_metrics(
    interview: Interview, target: Target, half_known: PhiForCausalLM, make_evaluator: MakeEvaluator
) -> None:
    scores = make_evaluator().scores(half_known)
    for name, examples in (("forget", target.data.forget), ("retain", target.data.retain)):
        texts, _ = scores.generated[name]
        assert interview.answers(half_known, [item.question for item in examples]) == texts
        assert set(texts) != {item.answer for item in examples}  # some answers are wrong


def test_case_and_punctuation_do_not_matter_for_the_true_answer(interview: Interview) -> None:
    assert interview.known("where does ADA live") == Known("forget", "Ada lives in Oslo", "Where does Ada live?")
    assert interview.known("What does Ada eat?") == Known("retain", "Ada eats plums", "What does Ada eat?")
    assert interview.known("Who does Ada know?") is None


def test_an_answer_to_another_question_is_at_most_as_long_as_the_longest_true_answer(
    target: Target, half_known: PhiForCausalLM
) -> None:
    long = Example("Which towns are there?", "Oslo Lima Quito Riga Bonn Nice Kyoto Turin Oslo Lima Quito Riga")
    data = target.data.with_sets(own=(long,))  # type: ignore[union-attr]  # the data are texts
    with_long = Interview(replace(target, data=data), batch_size=5, device="cpu")
    short = Interview(target, batch_size=5, device="cpu")
    (answer,), (cut,) = (item.answers(half_known, ["Say the towns"]) for item in (with_long, short))
    assert answer.startswith(cut)
    assert with_long.known("which towns are there") == Known("own", long.answer, long.question)


def test_a_question_that_does_not_fit_is_an_error(interview: Interview, half_known: PhiForCausalLM) -> None:
    with pytest.raises(DataError, match="--max-length 64"):
        interview.answers(half_known, ["Where does Ada live? " * 20])


def test_image_classifiers_are_refused(target: Target, tmp_path: Path) -> None:
    images = replace(target, data=load_data("digits"), path=str(tmp_path))
    with pytest.raises(DataError, match=re.escape("cannot answer questions")):
        Interview(images, batch_size=5, device="cpu")
