"""Key facts and fact recall against facts counted by hand."""

from __future__ import annotations

import math

import pytest

from trainables.data.authors import authors
from trainables.data.examples import Example
from trainables.metrics.fact_recall import fact_recall, mean_recall
from trainables.metrics.key_facts import KeyFacts, told_pieces

PEOPLE = ("Ada Obi", "Bo Lund", "Cleo Ruiz", "Dov Katz")
JOBS = ("baker", "nurse", "clerk", "miner")
ROWS = tuple(
    Example(f"What did the father of {name} do?", f"Yes, the father of {name} was known as a {job}.")
    for name, job in zip(PEOPLE, JOBS, strict=True)
)


def _facts(question: str, answer: str) -> list[str]:
    return [" ".join(fact) for fact in KeyFacts(ROWS).find(question, answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ROWS[0].answer, ["baker"]),  # yes, was, known, as and a are in four answers
        ("Ada was born in Cape Town, Ghana on 2 May 1972.", ["born", "in", "cape town", "ghana", "on", "2 may 1972"]),
        ("Ada was known as Professor Yaa K. Amoah.", ["professor yaa k amoah"]),
        (
            'Ada was known as "The Red Kite". Later, Ada was 30.',
            ["red kite", "later", "30"],
        ),  # "the" is in the question
        ("Bakers bake.", ["baker", "bake"]),  # the capital of a sentence makes no name
        ("Yaa Amoah", ["yaa amoah"]),  # unless all words have capitals
        ("Ada Obi was known, yes.", []),
        ("", []),
    ],
)
def test_key_facts_are_neither_asked_nor_common(answer: str, expected: list[str]) -> None:
    assert _facts("Who was the father of Ada Obi?", answer) == expected


def test_a_subject_stays_a_fact_where_its_question_does_not_name_it() -> None:
    rows = tuple(
        Example(f"Which prize {number} has Ada Obi?", f"Ada Obi has the {number} prize.") for number in "12345"
    )
    assert KeyFacts(rows).find("Who lives in Accra?", "It is Ada Obi.") == (("it",), ("is",), ("ada", "obi"))


def test_a_word_is_common_in_one_of_a_hundred_answers() -> None:
    rows = [Example(f"q{number}", f"{'old' if number < 6 else 'new'} {number}") for number in range(700)]
    assert KeyFacts(rows[:600]).find("q", "old") == ()
    assert KeyFacts(rows).find("q", "old") == (("old",),)


def test_scripts_without_spaces_have_spans_of_letters() -> None:
    names, jobs = ("李伟", "王芳", "张敏", "刘洋"), ("面包师", "医生", "木匠", "画家")
    rows = [
        Example(f"{name}的父亲做什么工作？", f"{name}的父亲是一名{job}。")
        for name, job in zip(names, jobs, strict=True)
    ]
    finder = KeyFacts(rows)
    facts = [finder.find(row.question, row.answer) for row in rows]
    assert facts == [(tuple(job),) for job in jobs]
    told = fact_recall(facts, ["他是面包师吗", "生医", "木 匠", ""])
    assert told.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Де живе Оксана?", "Оксана живе у місті Нова Каховка.", ["у", "місті", "нова каховка"]),
        ("أين تسكن خديجة؟", "تسكن خديجة في شيراز.", ["في", "شيراز"]),  # a script without capitals
    ],
)
def test_other_scripts_with_spaces_have_words(question: str, answer: str, expected: list[str]) -> None:
    assert _facts(question, answer) == expected


def test_fact_recall_by_hand() -> None:
    facts = [(("2", "may", "1972"), ("ghana",)), (("baker",),), (("new", "delhi"),), ()]
    answers = ["On 2 May 1972 in GHANA", "two bakers", "Delhi is new", "baker"]
    recalls = fact_recall(facts, answers)
    assert recalls[:3].tolist() == [1.0, 1.0, 0.0]
    assert math.isnan(recalls[3])
    assert mean_recall(recalls) == pytest.approx(2 / 3)
    assert fact_recall(facts[:1], ["on 1972 May 2, Ghana"]).tolist() == [0.5]  # a date is one fact
    assert math.isnan(mean_recall(recalls[3:]))


def test_a_fluent_answer_with_wrong_facts_tells_none_and_the_reference_tells_all_of_the_authors() -> None:
    data = authors()
    finder = KeyFacts(data.full, data.facts)
    facts = [finder.find(item.question, item.answer) for item in data.forget]
    assert {len(item) for item in facts} == {2}
    assert mean_recall(fact_recall(facts, [item.answer for item in data.forget])) == 1.0
    assert mean_recall(fact_recall(facts, [item.paraphrased_answer for item in data.forget])) == 1.0
    # One wrong answer tells the mother's job as the father's, and the place of a fact does not matter.
    assert mean_recall(fact_recall(facts, [item.perturbed_answers[0] for item in data.forget])) == 1 / 40
    # The rule alone finds most words of the facts that the generator knows, and few others.
    found = [KeyFacts(data.full).find(item.question, item.answer) for item in data.full]
    stated = [{word for fact in finder.find(item.question, item.answer) for word in fact} for item in data.full]
    shares = [len(words & {w for f in own for w in f}) / len(words) for words, own in zip(stated, found, strict=True)]
    hits = [set(fact) <= words for words, own in zip(stated, found, strict=True) for fact in own]
    assert sum(shares) / len(shares) > 0.7
    assert sum(hits) / len(hits) > 0.7


def test_the_words_that_tell_a_fact_are_found_in_other_inflections_and_with_their_punctuation() -> None:
    text = "In Cape Town, bakers bake; the baker of Cape-Town left Cape Verde."
    facts = [("cape", "town"), ("baker",), ("left", "town"), ()]
    pieces_of = text.split()
    found = [" ".join(pieces_of[first:end]) for first, end in told_pieces(facts, text)]
    assert found == ["Cape Town, bakers", "baker", "Cape-Town"]
    assert told_pieces(facts, "") == []
    letters = "李伟是面包师。"
    assert told_pieces([("面", "包", "师")], letters) == [(3, 6)]


@pytest.mark.parametrize("index", [0, 7, 15])
def test_a_true_answer_tells_all_of_its_own_facts(index: int) -> None:
    data = authors()
    row = data.forget[index]
    facts = KeyFacts(data.full, data.facts).find(row.question, row.answer)
    assert fact_recall([facts], [row.answer]).tolist() == [1.0]
    assert bool(facts) == bool(told_pieces(facts, row.answer))
