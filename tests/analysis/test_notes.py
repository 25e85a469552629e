"""Every note has a macro whose arguments are the facts of the note."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from analysis.report.render import environment

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"
MACROS = {
    name: set(macro.arguments)
    for file in ("note.j2", "figure_captions.j2")
    for name, macro in vars(environment().get_template(file).module).items()
    if hasattr(macro, "arguments")
}


def notes() -> Iterator[tuple[str, set[str]]]:
    """Yield the code and the names of the facts of every note in the package; ``**facts`` are left out."""
    for path in ANALYSIS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "note" and node.args:
                (code,) = node.args
                assert isinstance(code, ast.Constant)
                yield str(code.value), {item.arg for item in node.keywords if item.arg}


def test_every_note_has_a_macro_with_its_facts() -> None:
    found = list(notes())
    assert len(found) > 30
    assert [code for code, facts in found if code not in MACROS or not facts <= MACROS[code]] == []
