"""Only the listed modules of sweeper write files: a file with two writers can be inconsistent after a crash."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "sweeper"
WRITES = ("write_text", "write_bytes", "write_whole", "write_json", "staged")
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


def test_files_are_written_in_few_places() -> None:
    files = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    found = {name for name, tree in files.items() if any(map(writes, ast.walk(tree)))}
    places = {name: [place for place in WRITERS if f"{name}/".startswith(f"{place}/")] for name in found}
    assert not [name for name, listed in places.items() if not listed]
    assert {place for listed in places.values() for place in listed} == set(WRITERS), "the list shrinks with the code"
