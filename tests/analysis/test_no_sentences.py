"""Analysis returns facts: text of four words or more belongs in a template, except errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"


def formatted(tree: ast.AST) -> Iterator[str]:
    """Yield the text of every f-string outside ``raise``, with ``{}`` for each value."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else " {} " for part in node.values)
        elif not isinstance(node, ast.Raise):
            yield from formatted(node)


def is_sentence(text: str) -> bool:
    """Return whether a text has at least four words of two letters or more, without HTML tags."""
    plain = re.sub("<[^>]*>|<[^>]*$|^[^<]*>", "", text)
    return len(re.findall(r"(?<![\w.])[A-Za-z][a-z']+(?![\w(=])", plain)) >= 4


def test_no_function_of_analysis_assembles_a_sentence() -> None:
    assert is_sentence("{} of the trials have ended")
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in ANALYSIS.rglob("*.py")}
    assert [(name, text) for name, tree in trees.items() for text in formatted(tree) if is_sentence(text)] == []
