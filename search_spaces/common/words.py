"""Split a text into words, in any script.

A word consists of letters, digits and the marks on them, such as accents and vowel signs. All other characters separate
words, also apostrophes and hyphens. Han, Thai and other scripts are written without spaces between words. In these
scripts, each letter with its marks counts as one word.
"""

from __future__ import annotations

import re
from functools import cache
from unicodedata import normalize

_SINGLE = r"[\p{L}&&[\p{Ideographic}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{sc=Yi}\p{sc=Nshu}\p{LB=SA}]]"
"""A letter in a script without spaces. ``LB=SA`` is Thai, Lao, Khmer, Myanmar and related scripts (Unicode, UAX 14)."""
_LETTER = rf"[[\p{{L}}\p{{N}}]--{_SINGLE}--[\u02BB\u02BC]]"  # the letters U+02BB and U+02BC are used as apostrophes
_SPACE = r"[\s\x1c-\x1f]"  # as in Python's ``re`` and ``str.split``
_VISIBLE = r"[^\s\x1c-\x1f]"
_MARKS = r"\p{M}*"
_WORD = rf"{_SINGLE}{_MARKS}|(?:{_LETTER}{_MARKS})+"
_UNIT = rf"{_SINGLE}{_MARKS}|(?:(?:{_LETTER}|_){_MARKS})+|{_VISIBLE}{_MARKS}"
_PIECE = rf"(?:{_SINGLE}{_MARKS}|(?:(?!{_SINGLE}){_VISIBLE})+){_SPACE}*"
_IGNORED = r"(?!\u200B)\p{Cf}"
"""Invisible characters that do not separate words, such as joiners and soft hyphens. U+200B is a zero-width space."""


def words(text: str) -> list[str]:
    """Return the words of a text, case-folded and in Unicode's normal form NFC.

    Canonically equivalent texts, such as the forms NFC and NFD of a text, have equal words. In an ASCII text, the words
    are the longest runs of letters and digits, as in the package ``rouge_score``.
    """
    return _matches(_WORD, _folded(text))


def units(text: str) -> list[str]:
    """Return the words and the other visible characters of a text in order, such as punctuation marks.

    Underscores belong to words, as in Python's ``\\w``.
    """
    return _matches(_UNIT, _folded(text))


def pieces(text: str) -> list[str]:
    """Cut a text at spaces and around the letters of scripts without spaces.

    The joined pieces are the text in the form NFC, without its leading spaces. Each piece includes the spaces after it.
    """
    return _matches(_PIECE, normalize("NFC", text))


def is_unspaced(word: str) -> bool:
    """Return whether a word is a letter of a script without spaces."""
    return not word.isascii() and _pattern(rf"{_SINGLE}{_MARKS}").fullmatch(word) is not None


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Unicode 16, definition D145 (canonical caseless matching)
    folded = normalize("NFC", normalize("NFD", text).casefold())
    return str(_pattern(_IGNORED).sub("", folded))


def _matches(pattern: str, text: str) -> list[str]:
    matches: list[str] = _pattern(pattern).findall(text)
    return matches


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    import regex  # imported here, because ``--help`` needs no Unicode tables

    compiled: re.Pattern[str] = regex.compile(pattern, regex.VERSION1)
    return compiled
