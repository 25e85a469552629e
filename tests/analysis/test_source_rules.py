"""Rules on the source of analysis: sentences are in templates, and every note has its macro."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import analysis
from analysis.report.render import environment

TREES = {path: ast.parse(path.read_text("utf-8")) for path in Path(str(analysis.__file__)).parent.rglob("*.py")}
MACROS = {
    name: set(macro.arguments)
    for file in ("note.j2", "figure_captions.j2")
    for name, macro in vars(environment().get_template(file).module).items()
    if hasattr(macro, "arguments")
}


def sentences(tree: ast.Module) -> Iterator[str]:
    """Yield the text of each f-string outside ``raise`` with at least four words. Ruff allows no other formatting."""
    raised = {part for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in raised:
            text = " ".join(part.value for part in node.values if isinstance(part, ast.Constant))
            if len(re.findall(r"(?<![\w.-])[A-Za-z][a-z']+(?![\w(=-])", text)) >= 4:
                yield text


def test_no_function_of_analysis_assembles_a_sentence() -> None:
    example = 'f"{n} of the trials have ended"; raise Error(f"the table has no {column}")'
    assert list(sentences(ast.parse(example))) == [" of the trials have ended"]
    assert not [(path, text) for path, tree in TREES.items() for text in sentences(tree)]


def test_every_note_has_a_macro_with_its_facts() -> None:
    calls = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    notes = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "note"]
    found = [(str(ast.literal_eval(node.args[0])), {item.arg for item in node.keywords if item.arg}) for node in notes]
    assert len(found) > 30
    assert [code for code, facts in found if not facts <= MACROS.get(code, set()) or code not in MACROS] == []
