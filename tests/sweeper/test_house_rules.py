"""Rules on the source of sweeper that are not in the linters: imports and arguments are checked by pyproject.toml."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "sweeper"
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
WRITES = ("write_text", "write_bytes", "write_atomically", "write_json", "staged")
WRITERS = {
    "store": "the sweep's folder",
    "followers": "tables, checkpoints, MLflow, status",
    "search/reuse.py": "the copied files of a reused trial",
    "driver/open_sweep.py": "the event log of a sweep that had only tables",
    "execution/fork_server.py": "the socket's folder of the fork server",
    "checks/cluster_health.py": "the file with which doctor tests shared folders",
    "export": "the exported folder that a user asked for",
    "cli": "the file that a user names with --out",
    "api.py": "the same from Python",
    "single_run.py": "the files of a run without a sweep",
}


def writes(node: ast.AST) -> bool:
    """Return whether the node calls one of ``WRITES``, or opens a file for writing."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).rpartition(".")[2]
    modes = [item.value for item in (*node.args, *(keyword.value for keyword in node.keywords)) if is_text(item)]
    return name in WRITES or (name == "open" and any(str(mode)[:1] in ("w", "a", "x") for mode in modes))


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def fields(node: ast.ClassDef) -> set[str]:
    """Return the annotated fields of a class, and the attributes that its constructor sets."""
    found = {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            stores = (part for part in ast.walk(item) if isinstance(part, ast.Attribute))
            found |= {part.attr for part in stores if isinstance(part.ctx, ast.Store)}
    return found


def test_files_are_written_in_few_places() -> None:
    """A file with two writers can be inconsistent after a crash."""
    found = {name for name, tree in TREES.items() if any(map(writes, ast.walk(tree)))}
    places = {name: [place for place in WRITERS if f"{name}/".startswith(f"{place}/")] for name in found}
    assert not [name for name, listed in places.items() if not listed]
    assert {place for listed in places.values() for place in listed} == set(WRITERS), "the list shrinks with the code"


def test_no_recorded_command_line_is_parsed() -> None:
    """sweep.json stores the options as values."""
    assert not [name for name, text in TEXTS.items() if "shlex.split" in text]


def test_a_class_with_more_than_8_fields_describes_them() -> None:
    """A class with many fields usually has several tasks."""
    classes = [
        (name, node) for name, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    silent = [item for item in classes if "fields" not in (ast.get_docstring(item[1]) or "").lower()]
    assert not [(name, node.name) for name, node in silent if len(fields(node)) > 8]


def test_rooms_and_modules_are_small() -> None:
    """At most nine rooms with at most 12 modules, six modules beside them, and 400 lines in a module."""
    rooms = Counter(name.rpartition("/")[0] for name in TREES if not name.endswith("__init__.py"))
    assert len([room for room in rooms if room and "/" not in room]) <= 9
    assert rooms.pop("") <= 6
    assert max(rooms.values()) <= 12
    assert max(len(text.splitlines()) for text in TEXTS.values()) <= 400
