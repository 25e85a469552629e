"""The key facts of a reference answer: what the answer says beyond its question and beyond the usual words.

A key fact is a word, or a span of words, of the reference. Two kinds of words are left out:

- words of the question;
- common words: words that at least ``max(4, 1% of the rows)`` answers of the training data contain although their own
  questions do not. These are the words of the form of an answer, such as "was born in".

Consecutive words with a capital letter or a digit are one span, such as a name or a date. Punctuation ends a span, and
left-out words are removed from its ends. All other words are facts of their own. The first word of a sentence has a
capital in any case, so it does not begin a span.

In a script without spaces, such as Han or Thai, letters are not words. There, a letter is left out if it belongs to a
pair of letters that the question contains or that is common. The remaining letters between left-out letters are one
span.

Limitations:

- The rule does not understand the answer. An unusual adjective is a key fact, and another format of the same date is
  another fact. A fact that many answers share, such as a frequent city, is a common word.
- In a small data set, some words of the form are too rare to be found.
- Scripts without capitals have no spans of several words, and in German, each noun counts as a name.

A data set that knows its facts states them instead (``UnlearningData.facts``), as the generated authors do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from search_spaces.common.words import is_unspaced, pieces
from trainables.metrics.rouge import stemmed_words

if TYPE_CHECKING:
    from trainables.data.examples import Example

Fact = tuple[str, ...]
"""The stemmed words of a fact, in order."""

_MIN_ROWS, _SHARE = 4, 0.01
_SENTENCE_END = re.compile(r"[.!?:;。！？]\W*$")


@dataclass(frozen=True, slots=True)
class _Word:
    """A stemmed word of a text.

    Attributes:
        is_name: whether the word has a capital or a digit, and does not only begin a sentence.
        joins: whether neither punctuation nor, in a script without spaces, a space separates it from the previous word.
    """

    stem: str
    is_name: bool
    joins: bool

    @property
    def is_letter(self) -> bool:
        return is_unspaced(self.stem)


def _split(text: str) -> list[_Word]:
    parts = [(piece, piece.strip(), stemmed_words(piece)) for piece in pieces(text)]
    has_only_capitals = all(_begins_name(visible) for _, visible, stems in parts if stems)
    words: list[_Word] = []
    starts_sentence, joins = not has_only_capitals, False
    for piece, visible, stems in parts:
        if not stems:  # punctuation
            joins = False
            starts_sentence = starts_sentence or _ends_sentence(visible)
            continue
        starts_with_digit = next(filter(str.isalnum, visible)).isdigit()
        is_name = _begins_name(visible) and (starts_with_digit or not starts_sentence)
        joins = joins and visible[0].isalnum()
        for stem in stems:
            words.append(_Word(stem, is_name, joins))
            joins = True
        are_initials = visible.endswith(".") and all(len(stem) == 1 for stem in stems)
        has_space = is_unspaced(stems[0]) and piece != visible
        joins = are_initials or (visible[-1].isalnum() and not has_space)
        starts_sentence = _ends_sentence(visible) and not are_initials and not has_only_capitals
    return words


def _begins_name(visible: str) -> bool:
    first = next(filter(str.isalnum, visible))
    return first.isupper() or first.isdigit()


def _ends_sentence(visible: str) -> bool:
    return _SENTENCE_END.search(visible) is not None


def _grams(text: str) -> set[Fact]:
    """Return the words of a text, and the pairs of adjacent letters in scripts without spaces."""
    if text.isascii():
        return {(stem,) for stem in stemmed_words(text)}
    words = _split(text)
    pairs = {(left.stem, right.stem) for left, right in pairwise(words) if right.joins and left.is_letter}
    return pairs | {(word.stem,) for word in words}


@dataclass(frozen=True)
class KeyFacts:
    """Finds the key facts of reference answers.

    Attributes:
        rows: the rows in which common words are counted.
        stated: the facts that the data set states itself, by answer.
    """

    rows: Sequence[Example]
    stated: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def common(self) -> frozenset[Fact]:
        """The common words, and the common pairs of letters in scripts without spaces."""
        pairs = {(row.question, row.answer) for row in self.rows if not row.is_text}
        counts: Counter[Fact] = Counter()
        for question, answer in pairs:
            counts.update(_grams(answer) - _grams(question))
        limit = max(_MIN_ROWS, _SHARE * len(pairs))
        return frozenset(gram for gram, count in counts.items() if count >= limit)

    def find(self, question: str, answer: str) -> tuple[Fact, ...]:
        """Return the key facts of an answer, in order and without duplicates. An answer may have none."""
        if answer in self.stated:
            return tuple(tuple(stemmed_words(fact)) for fact in self.stated[answer])
        words = _split(answer)
        known = self.common | _grams(question)
        return tuple(dict.fromkeys(_spans(words, known)))


def _spans(words: Sequence[_Word], known: Set[Fact]) -> Iterator[Fact]:
    is_known = [_is_known(words, position, known) for position in range(len(words))]
    span: list[int] = []
    for position, word in enumerate(words):
        previous = words[position - 1]
        continues = bool(span) and word.joins and word.is_letter == previous.is_letter
        if word.is_letter:
            continues = continues and is_known[position] == is_known[position - 1]
        else:
            continues = continues and word.is_name and previous.is_name
        if not continues:
            yield from _stripped(span, words, is_known)
            span = []
        span.append(position)
    yield from _stripped(span, words, is_known)


def _is_known(words: Sequence[_Word], position: int, known: Set[Fact]) -> bool:
    word = words[position]
    if not word.is_letter:
        return (word.stem,) in known
    pairs: list[Fact] = []
    if position > 0 and word.joins:
        pairs.append((words[position - 1].stem, word.stem))
    if position + 1 < len(words) and words[position + 1].joins:
        pairs.append((word.stem, words[position + 1].stem))
    return any(pair in known for pair in pairs or [(word.stem,)])


def _stripped(span: Sequence[int], words: Sequence[_Word], is_known: Sequence[bool]) -> Iterator[Fact]:
    """Yield a span without the known words at its ends, unless no word remains."""
    new = [position for position in span if not is_known[position]]
    if new:
        yield tuple(words[position].stem for position in range(new[0], new[-1] + 1))


def is_told(fact: Fact, answer: Sequence[str]) -> bool:
    """Return whether the words of a fact occur in the words of an answer, in the same order without a gap."""
    size = len(fact)
    return any(tuple(answer[start : start + size]) == fact for start in range(len(answer) - size + 1))


def told_pieces(facts: Iterable[Fact], text: str) -> list[tuple[int, int]]:
    """Return where a text tells any of the facts, as ranges of its :func:`~search_spaces.common.words.pieces`.

    The ranges are sorted, do not overlap, and exclude their ends. A fact that the text tells several times has several
    ranges.
    """
    stems = [(stem, index) for index, piece in enumerate(pieces(text)) for stem in stemmed_words(piece)]
    told: set[int] = set()
    for fact in filter(None, facts):
        for start in range(len(stems) - len(fact) + 1):
            part = stems[start : start + len(fact)]
            if tuple(stem for stem, _ in part) == fact:
                told.update(range(part[0][1], part[-1][1] + 1))
    ranges: list[tuple[int, int]] = []
    for index in sorted(told):
        if ranges and ranges[-1][1] == index:
            ranges[-1] = (ranges[-1][0], index + 1)
        else:
            ranges.append((index, index + 1))
    return ranges
