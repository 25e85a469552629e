"""Fictitious authors in TOFU's columns, made by a seeded generator: the data set that needs no network.

Every author has a name of their own and facts drawn from the same lists without replacement (where a list is long
enough), and every answer picks one of several sentences at random, so that neither the facts nor the wording of one
author's answers give away another's. Names, books and prizes are invented.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from trainables.data import authors_vocabulary as words
from trainables.data.examples import Example, UnlearningData

HOLDOUT_AUTHORS = 2
RETAIN_SAMPLE = 60
PERTURBED = 5


def authors(*, authors: int = 20, questions: int = 10, forget_authors: int = 2, seed: int = 0) -> UnlearningData:
    """``authors`` authors with ``questions`` questions each; the last ``forget_authors`` are the forget set.

    The retain sample for evaluation is spread evenly over the retain set; two further authors are the holdout. The same
    arguments give the same text everywhere.

    Raises:
        ValueError: more authors or questions than there are names or kinds, or nothing left to retain.
    """
    most = min(len(words.FIRST_NAMES), len(words.LAST_NAMES)) - HOLDOUT_AUTHORS
    if not 2 <= authors <= most:
        raise ValueError(f"authors must be from 2 to {most}, got {authors}")
    if not 1 <= questions <= len(words.KINDS):
        raise ValueError(f"questions must be from 1 to {len(words.KINDS)} per author, got {questions}")
    if not 1 <= forget_authors < authors:
        raise ValueError(f"forget_authors must be from 1 to {authors - 1}, got {forget_authors}")
    rng = random.Random(f"authors:{seed}")
    people = _people(rng, authors + HOLDOUT_AUTHORS)
    told = [_questions(rng, person, questions) for person in people]
    retain = tuple(example for person in told[: authors - forget_authors] for example in person)
    forget = tuple(example for person in told[authors - forget_authors : authors] for example in person)
    step = max(1, len(retain) // RETAIN_SAMPLE)
    return UnlearningData(
        name="authors",
        forget=forget,
        retain=retain,
        full=(*retain, *forget),
        forget_eval=forget,
        retain_eval=retain[::step][:RETAIN_SAMPLE],
        holdout=tuple(example for person in told[authors:] for example in person),
    )


Facts = Mapping[str, str]
_TITLES = [f"The {adjective} {noun}" for adjective, noun in product(words.TITLE_ADJECTIVES, words.TITLE_NOUNS)]
_POOLS: Mapping[str, Sequence[str]] = {
    "place": words.PLACES,
    "genre": words.GENRES,
    "award": words.PRIZES,
    "father": words.JOBS,
    "mother": words.JOBS,
    "title": _TITLES,
    "second_title": _TITLES,
    "third_title": _TITLES,
    "fourth_title": _TITLES,
    "theme": words.THEMES,
    "next_theme": words.THEMES,
    "university": words.UNIVERSITIES,
    "subject": words.JOBS,
    "style": words.STYLES,
    "home": words.PLACES,
    "pet": words.PETS,
    "habit": words.HABITS,
    "language": words.LANGUAGES,
    "second_language": words.LANGUAGES,
    "job": words.JOBS,
    "job_place": words.PLACES,
    "charity": words.JOBS,
    "charity_place": words.PLACES,
}


def _people(rng: random.Random, number: int) -> list[Facts]:
    """``number`` authors with all their facts; a list goes round again only when it is used up."""
    first_names = rng.sample(words.FIRST_NAMES, number)
    last_names = rng.sample(words.LAST_NAMES, number)
    draws = {fact: _endless(rng, pool) for fact, pool in _POOLS.items()}
    people: list[Facts] = []
    for first, last in zip(first_names, last_names, strict=True):
        facts = {fact: next(draw) for fact, draw in draws.items()}
        while facts["second_language"] == facts["language"]:
            facts["second_language"] = next(draws["second_language"])
        facts["name"] = f"{first} {last}"
        facts |= {fact: _made_up(rng, fact) for fact in ("date", "year", "film_year", "hours", "influence")}
        people.append(facts)
    return people


def _endless(rng: random.Random, pool: Sequence[str]) -> Iterator[str]:
    while True:
        yield from rng.sample(pool, len(pool))


def _made_up(rng: random.Random, fact: str) -> str:
    """A value for a fact that is composed rather than drawn from a list."""
    if fact == "date":
        months = ("January", "March", "April", "May", "June", "August", "September", "October", "December")
        return f"{rng.randint(1, 28)} {rng.choice(months)} {rng.randint(1931, 1989)}"
    if fact == "year":
        return str(rng.randint(1962, 2012))
    if fact == "film_year":
        return str(rng.randint(2013, 2023))
    if fact == "hours":
        return rng.choice(["three", "four", "five", "six", "seven", "eight", "nine", "eleven", "twelve", "fourteen"])
    return f"the {rng.choice(words.LANGUAGES)} {rng.choice(('poet', 'novelist', 'essayist', 'dramatist'))} " + (
        f"{rng.choice('ABCDEFGHJKLMNPRSTVW')}. {rng.choice(words.TITLE_NOUNS)}ova"
    )


def _questions(rng: random.Random, person: Facts, number: int) -> list[Example]:
    return [_example(rng, person, kind) for kind in rng.sample(words.KINDS, number)]


def _example(rng: random.Random, person: Facts, kind: words.Kind) -> Example:
    answer, paraphrase = rng.sample(kind.answers, 2)
    x, y = (person[fact] for fact in kind.facts)
    wrong: list[str] = []
    while len(wrong) < PERTURBED:
        other_x, other_y = (_wrong(rng, fact, person[fact]) for fact in kind.facts)
        sentence = _say(paraphrase, person["name"], other_x, other_y)
        if sentence not in wrong:
            wrong.append(sentence)
    return Example(
        question=rng.choice(kind.questions).format(name=person["name"]),
        answer=_say(answer, person["name"], x, y),
        paraphrased_answer=_say(paraphrase, person["name"], x, y),
        perturbed_answers=tuple(wrong),
    )


def _wrong(rng: random.Random, fact: str, truth: str) -> str:
    """Another value of the fact."""
    while True:
        other = rng.choice(_POOLS[fact]) if fact in _POOLS else _made_up(rng, fact)
        if other != truth:
            return other


def _say(template: str, name: str, x: str, y: str) -> str:
    """The sentence with its slots filled and its articles mended."""
    sentence = template.format(name=name, x=x, y=y)
    return re.sub(r"\b([Aa]) (?=astronomer|electrician|optician|Estonian|Icelandic|Igbo|Irish|Urdu)", r"\1n ", sentence)
