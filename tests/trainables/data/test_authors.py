"""The generated authors: complete, reproducible anywhere, and no author's answers give away another's."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys

import pytest

from trainables.data import load_data
from trainables.data.authors import authors
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.rouge import rouge_l_recall
from trainables.objectives.dpo import refusals

PINNED = "1166819a1d89d13bf846a7964673d3324c903d578270b8e48d979401e3d2257c"
"""The content hash of the default data: another one means other text, and every cached target lost."""


def name_of(example: Example) -> str:
    """The two capitalised words of the author's name, which every answer repeats from the question."""
    words = example.question.replace("?", "").replace(",", "").replace("'s", "").split()
    return next(
        f"{a} {b}"
        for a, b in itertools.pairwise(words)
        if a[0].isupper() and b[0].isupper() and f"{a} {b}" in example.answer
    )


@pytest.fixture(scope="module")
def data() -> UnlearningData:
    return authors()


def test_the_default_is_200_questions_and_the_last_two_authors_are_forgotten(data: UnlearningData) -> None:
    assert (len(data.full), len(data.forget), len(data.retain)) == (200, 20, 180)
    assert (data.full, data.forget_eval) == ((*data.retain, *data.forget), data.forget)
    assert (len(data.retain_eval), len(data.holdout)) == (60, 20)
    people = [{name_of(example) for example in part} for part in (data.retain, data.forget, data.holdout)]
    assert (list(map(len, people)), len(set.union(*people))) == ([18, 2, 2], 22)
    assert {name_of(example) for example in data.retain_eval} == people[0]


def test_the_text_is_pinned(data: UnlearningData) -> None:
    assert data.content_hash == PINNED
    assert load_data("authors") == data
    listed = "\n".join(refusals())
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "a4b1b4f89cd9c399"


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_complete_no_wrong_answer_is_right_and_nothing_occurs_twice(seed: int) -> None:
    generated = authors(seed=seed)
    for example in generated.full:
        assert example.question.endswith("?")
        assert "{" not in example.question + example.answer + example.paraphrased_answer
        assert example.answer != example.paraphrased_answer
        assert len(set(example.perturbed_answers)) == 5
        assert not {example.answer, example.paraphrased_answer} & set(example.perturbed_answers)
    everything = [*generated.full, *generated.holdout]
    assert len({example.question for example in everything}) == len(everything)
    assert len({example.answer for example in everything}) == len(everything)


def test_the_text_does_not_depend_on_the_process() -> None:
    script = "from trainables.data.authors import authors; print(authors().content_hash)"
    environment = os.environ | {"PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True)
    assert done.stdout.decode().strip() == PINNED
    assert authors(seed=4).content_hash != PINNED


def test_the_answer_to_the_most_similar_question_about_another_author_tells_little(data: UnlearningData) -> None:
    def overlap(left: Example, right: Example) -> float:
        a, b = set(left.question.split()), set(right.question.split())
        return len(a & b) / len(a | b)

    stolen = [max(data.retain, key=lambda other, asked=asked: overlap(other, asked)).answer for asked in data.forget]
    recall = rouge_l_recall([example.answer for example in data.forget], stolen).mean()
    assert recall < 0.45
