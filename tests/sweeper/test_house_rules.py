"""Rules on the source of sweeper that are not in the linters: imports and arguments are checked by pyproject.toml."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "sweeper"
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
WRITES = ("write_text", "write_bytes", "write_atomically", "write_json", "staged")
WRITERS = {
    "store": "the sweep's folder",
    "followers": "tables, checkpoints, MLflow, status",
    "search/reuse.py": "the copied files of a reused trial",
    "driver": "the event log, status.json and stop requests",
    "execution/fork_server.py": "the socket's folder of the fork server",
    "checks/cluster_health.py": "the file with which doctor tests shared folders",
    "export": "the exported folder that a user asked for",
    "cli": "the file that a user names with --out",
    "evaluating.py": "the metrics of one model",
    "single_run.py": "the files of a run without a sweep",
    "leaderboard.py": "the row of a cell, and the board of all rows",
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


def test_files_are_written_in_few_places() -> None:
    """A file with two writers can be inconsistent after a crash."""
    found = {name for name, tree in TREES.items() if any(map(writes, ast.walk(tree)))}
    places = {name: [place for place in WRITERS if f"{name}/".startswith(f"{place}/")] for name in found}
    assert not [name for name, listed in places.items() if not listed]
    assert {place for listed in places.values() for place in listed} == set(WRITERS), "the list shrinks with the code"


def test_no_recorded_command_line_is_parsed() -> None:
    """sweep.json stores the options as values."""
    assert not [name for name, text in TEXTS.items() if "shlex.split" in text]
