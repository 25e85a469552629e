"""Every problem with an option has a sentence, and every sentence gets its facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from sweeper.settings.problems import SENTENCES, STATED

ROOT = Path(__file__).parents[3] / "sweeper"
OWN = {"field", "source", "facts"}


def rejections() -> Iterator[tuple[str, set[str] | None]]:
    """Yield the code and the names of the facts of each problem in the source, or None if the facts are computed."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function not in ("reject", "problem", "Problem"):
                continue
            names = {keyword.arg or "**" for keyword in node.keywords} - OWN
            is_computed = function == "Problem" or "**" in names
            codes = [item.value for item in ast.walk(node.args[0]) if isinstance(item, ast.Constant)]
            yield from ((str(code), None if is_computed else names) for code in codes if str(code) in SENTENCES)


def test_every_sentence_is_used_with_its_facts() -> None:
    found = list(rejections())
    assert {code for code, _ in found} == SENTENCES.keys() - {STATED}
    for code, names in found:
        assert names is None or names == {name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name}, code
