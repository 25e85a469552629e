"""Generate questions and answers about fictitious authors, with TOFU's columns.

The facts about an author and the wording of the answers are random, so answers about one author reveal nothing about
other authors. The names, the possible facts and the templates of the sentences are in authors.toml.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path

from trainables.data.dataset import DataSet
from trainables.data.examples import Example, UnlearningData, limit_retain

HOLDOUT_AUTHORS = 2
QUESTIONS = 10
RETAIN_SAMPLE = 60
PERTURBED = 5

Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question about two facts, with templates for the question and for the answer.

    The templates contain ``{name}`` for the author, and ``{x}`` and ``{y}`` for the two facts.
    """

    facts: tuple[str, str]
    questions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The content of authors.toml: lists of words, the possible values of each fact, and the kinds of questions."""

    words: Mapping[str, Sequence[str]]
    facts: Mapping[str, Sequence[str]]
    kinds: tuple[Kind, ...]


@cache
def vocabulary() -> Vocabulary:
    content = tomllib.loads(Path(__file__).with_name("authors.toml").read_text(encoding="utf-8"))
    list_by_fact = content.pop("facts")
    kinds = content.pop("kinds")
    words = {name: items.split() if isinstance(items, str) else items for name, items in content.items()}
    words["titles"] = [
        f"The {first} {second}" for first, second in product(words["title_adjectives"], words["title_nouns"])
    ]
    return Vocabulary(
        words=words,
        facts={fact: words[name] for fact, name in list_by_fact.items()},
        kinds=tuple(
            Kind(facts=tuple(kind["facts"]), questions=tuple(kind["questions"]), answers=tuple(kind["answers"]))
            for kind in kinds
        ),
    )


def authors(*, authors: int = 20, questions: int = QUESTIONS, forget_authors: int = 2, seed: int = 0) -> UnlearningData:
    """Generate questions about authors. The forget set has the questions about the last ``forget_authors`` authors.

    The holdout set has the questions about two additional authors. Equal arguments give equal texts on every machine.
    """
    rng = random.Random(f"authors:{seed}")
    examples_by_author: list[list[Example]] = []
    rephrased: dict[Example, Example] = {}
    facts: dict[str, tuple[str, ...]] = {}
    for person in _people(rng, authors + HOLDOUT_AUTHORS):
        kinds = rng.sample(vocabulary().kinds, questions)
        examples = [_example(rng, person, kind) for kind in kinds]
        examples_by_author.append(examples)
        for example, kind in zip(examples, kinds, strict=True):
            facts[example.answer] = tuple(person[fact] for fact in kind.facts)
            rephrased[example] = Example(_other_question(example.question, person, kind), example.answer)
    retain_authors = authors - forget_authors
    retain = tuple(chain.from_iterable(examples_by_author[:retain_authors]))
    forget = tuple(chain.from_iterable(examples_by_author[retain_authors:authors]))
    interval = max(1, len(retain) // RETAIN_SAMPLE)
    retain_eval = retain[::interval][:RETAIN_SAMPLE]
    return UnlearningData(
        name="authors",
        forget=forget,
        retain=retain,
        full=(*retain, *forget),
        forget_eval=forget,
        retain_eval=retain_eval,
        holdout=tuple(chain.from_iterable(examples_by_author[authors:])),
        facts=facts,
    ).with_sets(
        forget_rephrased=tuple(rephrased[example] for example in forget),
        retain_rephrased=tuple(rephrased[example] for example in retain_eval),
        neighbours=_neighbours(forget, retain, set(retain_eval), facts),
    )


def _neighbours(
    forget: Sequence[Example], retain: Sequence[Example], evaluated: Set[Example], facts: Mapping[str, Sequence[str]]
) -> tuple[Example, ...]:
    """Return the retained examples that share a fact with the forget set and are in no other evaluation set."""
    forgotten = {fact for example in forget for fact in facts[example.answer]}
    return tuple(
        example for example in retain if example not in evaluated and not forgotten.isdisjoint(facts[example.answer])
    )


def _other_question(question: str, person: Facts, kind: Kind) -> str:
    """Return the question in other words: with the kind's next template. No example of the author has this question."""
    questions = [template.format(name=person["name"]) for template in kind.questions]
    return questions[(questions.index(question) + 1) % len(questions)]


def _people(rng: random.Random, count: int) -> list[Facts]:
    first_names = rng.sample(vocabulary().words["first_names"], count)
    last_names = rng.sample(vocabulary().words["last_names"], count)
    draws = {fact: _shuffled_forever(rng, pool) for fact, pool in vocabulary().facts.items()}
    people: list[Facts] = []
    for first, last in zip(first_names, last_names, strict=True):
        facts = {fact: next(draw) for fact, draw in draws.items()}
        while facts["second_language"] == facts["language"]:
            facts["second_language"] = next(draws["second_language"])
        facts["name"] = f"{first} {last}"
        facts |= {fact: _random_value(rng, fact) for fact in ("date", "year", "film_year", "hours", "influence")}
        people.append(facts)
    return people


def _shuffled_forever(rng: random.Random, pool: Sequence[str]) -> Iterator[str]:
    while True:
        yield from rng.sample(pool, len(pool))


def _random_value(rng: random.Random, fact: str) -> str:
    if fact == "date":
        months = ("January", "March", "April", "May", "June", "August", "September", "October", "December")
        return f"{rng.randint(1, 28)} {rng.choice(months)} {rng.randint(1931, 1989)}"
    if fact == "year":
        return str(rng.randint(1962, 2012))
    if fact == "film_year":
        return str(rng.randint(2013, 2023))
    if fact == "hours":
        return rng.choice(["three", "four", "five", "six", "seven", "eight", "nine", "eleven", "twelve", "fourteen"])
    # The remaining fact is an influence, such as "the Welsh poet A. Riverova".
    words = vocabulary().words
    language = rng.choice(words["languages"])
    profession = rng.choice(("poet", "novelist", "essayist", "dramatist"))
    initial = rng.choice("ABCDEFGHJKLMNPRSTVW")
    return f"the {language} {profession} {initial}. {rng.choice(words['title_nouns'])}ova"


def _example(rng: random.Random, person: Facts, kind: Kind) -> Example:
    answer, paraphrase = rng.sample(kind.answers, 2)
    fact_x, fact_y = kind.facts
    x = person[fact_x]
    y = person[fact_y]
    sentences: list[str] = []
    while len(sentences) < PERTURBED:
        other_x = _other_value(rng, fact_x, x)
        other_y = _other_value(rng, fact_y, y)
        sentence = _fill_template(paraphrase, person["name"], other_x, other_y)
        if sentence not in sentences:
            sentences.append(sentence)
    return Example(
        question=rng.choice(kind.questions).format(name=person["name"]),
        answer=_fill_template(answer, person["name"], x, y),
        paraphrased_answer=_fill_template(paraphrase, person["name"], x, y),
        perturbed_answers=tuple(sentences),
    )


def _other_value(rng: random.Random, fact: str, truth: str) -> str:
    facts = vocabulary().facts
    while True:
        other = rng.choice(facts[fact]) if fact in facts else _random_value(rng, fact)
        if other != truth:
            return other


def _fill_template(template: str, name: str, x: str, y: str) -> str:
    """Fill in a template, and change the article "a" to "an" where necessary."""
    sentence = template.format(name=name, x=x, y=y)
    return re.sub(r"\b([Aa]) (?=astronomer|electrician|optician|Estonian|Icelandic|Igbo|Irish|Urdu)", r"\1n ", sentence)


DATASETS = DataSet(
    name="authors",
    modality="language",
    description="200 generated questions about 20 fictitious authors; the forget set is the last two authors",
    sizes={"": (2 * QUESTIONS, 18 * QUESTIONS)},
    unit=QUESTIONS,
    generated=True,
    loader=lambda limit, seed=0: limit_retain(authors(seed=seed), limit, per_author=QUESTIONS),
)
