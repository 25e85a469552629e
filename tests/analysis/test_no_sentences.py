"""Analysis returns facts: a formatted text of four words or more belongs in a template, except errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import analysis


def sentences(source: str) -> Iterator[str]:
    """Yield the text of each f-string outside ``raise`` with at least four words. Ruff allows no other formatting."""
    tree = ast.parse(source)
    raised = {part for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in raised:
            text = " ".join(part.value for part in node.values if isinstance(part, ast.Constant))
            if len(re.findall(r"(?<![\w.-])[A-Za-z][a-z']+(?![\w(=-])", text)) >= 4:
                yield text


def test_no_function_of_analysis_assembles_a_sentence() -> None:
    example = 'f"{n} of the trials have ended"; raise Error(f"the table has no {column}")'
    assert list(sentences(example)) == [" of the trials have ended"]
    files = Path(str(analysis.__file__)).parent.rglob("*.py")
    assert not [(path, text) for path in files for text in sentences(path.read_text("utf-8"))]
