"""The generated authors: complete, reproducible anywhere, and no author's answers give away another's."""

from __future__ import annotations

import hashlib

import pytest

from trainables.data import load_data
from trainables.data.authors import authors
from trainables.data.examples import Example
from trainables.metrics.rouge import rouge_l_recall
from trainables.objectives.dpo import refusals

PINNED = "1166819a1d89d13bf846a7964673d3324c903d578270b8e48d979401e3d2257c"
"""The content hash of the default data. Another hash means other text, and every cached target is lost."""


def test_the_default_text_is_pinned_and_the_last_two_of_20_authors_are_forgotten() -> None:
    data = load_data("authors")
    assert data.content_hash == authors().content_hash == PINNED  # the seed of Python's hashes differs in each process
    assert authors(seed=4).content_hash != PINNED
    sizes = [len(part) for part in (data.full, data.forget, data.retain, data.retain_eval, data.holdout)]
    assert sizes == [200, 20, 180, 60, 20]
    listed = "\n".join(refusals())
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "a4b1b4f89cd9c399"


@pytest.mark.parametrize("seed", range(3))
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


def test_the_answer_to_the_most_similar_question_about_another_author_tells_little() -> None:
    data = authors()

    def overlap(left: Example, right: Example) -> float:
        a, b = set(left.question.split()), set(right.question.split())
        return len(a & b) / len(a | b)

    stolen = [max(data.retain, key=lambda other, asked=asked: overlap(other, asked)).answer for asked in data.forget]
    recall = rouge_l_recall([example.answer for example in data.forget], stolen).mean()
    assert recall < 0.45
