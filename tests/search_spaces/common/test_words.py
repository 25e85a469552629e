"""Words of texts in any script, against regular expressions on ASCII and against words by hand."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.common.words import pieces, units, words

ascii_text = st.text(st.characters(max_codepoint=127))


@given(ascii_text)
def test_in_ascii_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert words(text) == re.findall(r"[a-z0-9]+", text.lower())
    assert units(text) == re.findall(r"\w+|[^\w\s]", text.lower())
    assert [piece.strip() for piece in pieces(text)] == text.split()


@given(st.text())
def test_equivalent_texts_have_equal_words(text: str) -> None:
    decomposed, composed = unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)
    for split in (words, units, pieces):
        assert split(text) == split(decomposed) == split(composed)
    assert "".join(pieces(text)) == composed.lstrip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Évora, naïve Straße ΣΑΣ", "évora naïve strasse σασ"),
        ("Хто з'їв п’ять чи пʼять?", "хто з їв п ять чи п ять"),  # three characters for one apostrophe
        ("हिन्दी में", "हिन्दी में"),  # vowel signs and viramas belong to words
        ("می\u200cخواهم auf\u00adgabe", "میخواهم aufgabe"),  # invisible characters are ignored
        ("iPhone手机15，是。", "iphone 手 机 15 是"),
        ("コーヒーとﾊﾟﾝ", "コ ー ヒ ー と ﾊ ﾟ ﾝ"),
        ("ดีกำ ๒๕๖๗", "ดี ก ำ ๒๕๖๗"),
        ("ພາສາ ភាសា မြန်မာ", "ພ າ ສ າ ភា សា မြ န် မာ"),
        ("한국어 텍스트", "한국어 텍스트"),
        ("👍🏽 ---", ""),
    ],
)
def test_words_by_hand(text: str, expected: str) -> None:
    assert words(text) == expected.split()
