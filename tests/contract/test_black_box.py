"""These tests see the product from outside only."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
READERS = {"mlflow", "optuna", "pytest", "safetensors", "tokenizers", "torch", "transformers"}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
        elif isinstance(node, ast.Name) and node.id == "__import__":
            found.add("__import__")
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_a_contract_test_imports_the_standard_library_and_readers_of_files_only(path: Path) -> None:
    own = {name for name in imports(path) if name.startswith("tests.contract.")}
    others = {name.partition(".")[0] for name in imports(path) - own}
    assert others <= (READERS | sys.stdlib_module_names) - {"importlib", "runpy"}
