"""Analysis returns facts: a formatted string of four words or more belongs in analysis/report/templates.

Messages of errors are excepted: strings inside ``raise``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"
WORDS = 4


def formatted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and constant text of every f-string, ``str.format`` and ``%`` on a string, outside ``raise``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.JoinedStr):
            # A placeholder is no word: it only separates words.
            yield node.lineno, " {} ".join("".join(texts) for texts in _constants(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            if isinstance(node.func.value, ast.Constant):
                yield node.lineno, str(node.func.value.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            yield node.lineno, str(node.left.value)
        yield from formatted(node)


def _constants(node: ast.JoinedStr) -> Iterator[list[str]]:
    part: list[str] = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            part.append(str(value.value))
        else:
            yield part
            part = []
    yield part


def sentences(source: str) -> list[tuple[int, str]]:
    """The formatted strings with at least four words of two letters or more, without HTML tags."""
    return [
        (line, text)
        for line, text in formatted(ast.parse(source))
        if len(re.findall(r"(?<![\w.])[A-Za-z][a-z']+(?![\w(=])", re.sub("<[^>]*>|<[^>]*$|^[^<]*>", "", text))) >= WORDS
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = f"{n} of the trials have ended"', 1),
        ('x = "the {} of all trials".format(n)', 1),
        ('x = "the %s of all trials" % n', 1),
        ('raise ValueError(f"no {n} in the table")', 0),
        ('x = f"{a} ({b}): {c}"', 0),
        ('x = "which trial to take next"', 0),
    ],
)
def test_what_is_a_sentence(source: str, found: int) -> None:
    assert len(sentences(source)) == found


def test_no_function_of_analysis_assembles_a_sentence() -> None:
    found = {
        str(path.relative_to(ANALYSIS)): sentences(path.read_text("utf-8")) for path in sorted(ANALYSIS.rglob("*.py"))
    }
    assert {name: texts for name, texts in found.items() if texts} == {}
