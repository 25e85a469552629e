"""Analysis returns facts: text of four words or more belongs in a template, except errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"


def formatted(tree: ast.AST) -> Iterator[str]:
    """Yield the text of every f-string, ``str.format`` and ``%`` outside ``raise``."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.JoinedStr():
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else " {} " for part in node.values)
                continue
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                yield text
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
                yield text
        if not isinstance(node, ast.Raise):
            yield from formatted(node)


def is_sentence(text: str) -> bool:
    """Return whether a text has at least four words of two letters or more, without HTML tags."""
    plain = re.sub("<[^>]*>|<[^>]*$|^[^<]*>", "", text)
    return len(re.findall(r"(?<![\w.])[A-Za-z][a-z']+(?![\w(=])", plain)) >= 4


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = f"{n} of the trials have ended"', 1),
        ('x = "the {} of all trials".format(n)', 1),
        ('x = "the %s of all trials" % n', 1),
        ('raise ValueError(f"no {n} in the table")', 0),
        ('x = f"{a} ({b}): {c}"', 0),
    ],
)
def test_what_is_a_sentence(source: str, found: int) -> None:
    assert sum(map(is_sentence, formatted(ast.parse(source)))) == found


def test_no_function_of_analysis_assembles_a_sentence() -> None:
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in ANALYSIS.rglob("*.py")}
    assert [(name, text) for name, tree in trees.items() for text in formatted(tree) if is_sentence(text)] == []
