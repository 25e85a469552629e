"""Rules that keep the sweeper package in order, read from its source. Its import layers are in pyproject.toml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "sweeper"
TREES = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}

MOST_MODULES, MOST_LINES, MOST_FIELDS, MOST_ARGUMENTS = 12, 400, 8, 6
WRITES = ("write_text", "write_bytes", "write_whole", "write_json", "staged")
WRITERS = {
    "store": "the sweep's folder",
    "followers": "tables, checkpoints, MLflow, status",
    "search/study_journal.py": "Optuna's journal, cut at its first damaged line",
    "search/reuse.py": "the copied files of a reused trial",
    "driver/open_sweep.py": "the event log of a sweep that had only tables",
    "execution/fork_server.py": "the socket's folder of the fork server",
    "checks/cluster_health.py": "the file with which doctor tests shared folders",
    "export": "the exported folder that a user asked for",
    "cli": "the file that a user names with --out",
    "api.py": "the same from Python",
    "single_run.py": "the files of a run without a sweep",
}


def calls() -> Iterator[tuple[Path, ast.Call, str]]:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                yield path, node, name


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def writes(node: ast.Call, name: str) -> bool:
    if name in WRITES:
        return True
    modes = [item.value for item in (*node.args, *(keyword.value for keyword in node.keywords)) if is_text(item)]
    return name == "open" and any(str(mode)[:1] in ("w", "a", "x") for mode in modes)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def fields(node: ast.ClassDef) -> set[str]:
    """The annotated fields of a class, and the attributes that its constructor sets."""
    found = {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            stores = (part for part in ast.walk(item) if isinstance(part, ast.Attribute))
            found |= {part.attr for part in stores if isinstance(part.ctx, ast.Store)}
    return found


def test_files_are_written_in_few_places() -> None:
    """A file with two writers can be inconsistent after a crash."""
    found = {str(path) for path, node, name in calls() if writes(node, name)}
    unlisted = {name for name in found if not any(name == place or name.startswith(f"{place}/") for place in WRITERS)}
    assert not unlisted
    idle = {place for place in WRITERS if not any(name == place or name.startswith(f"{place}/") for name in found)}
    assert not idle, "the list shrinks with the code"


def test_click_is_imported_in_cli_alone() -> None:
    """Settings, checks and the Python API work without a command line."""
    names = {
        str(path)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(item.name == "click" for item in node.names))
        or (isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "click")
    }
    assert {name.partition("/")[0] for name in names} <= {"cli", "__main__.py"}


def test_no_recorded_command_line_is_parsed() -> None:
    """sweep.json stores the options as values. The command line in it is only for people."""
    assert not [path for path, node, _ in calls() if ast.unparse(node.func) == "shlex.split"]


def test_a_class_with_many_fields_gives_the_reason_in_its_docstring() -> None:
    """A class with many fields usually has several tasks."""
    many = [(str(path), node.name) for path, node in classes() if len(fields(node)) > MOST_FIELDS]
    without = [
        (str(path), node.name)
        for path, node in classes()
        if (str(path), node.name) in many and "fields" not in (ast.get_docstring(node) or "").lower()
    ]
    assert not without


def test_functions_have_few_arguments() -> None:
    """Arguments that are always passed together belong in one object."""
    found = set()
    for path, node in functions():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if len([item for item in arguments if item.arg not in ("self", "cls")]) > MOST_ARGUMENTS:
            found.add((str(path), node.name))
    assert not found


def test_rooms_and_modules_are_small() -> None:
    """A newcomer reads the list of a room's modules at a glance, and a module at one sitting."""
    rooms: dict[Path, int] = {}
    for path in TREES:
        rooms[path.parent] = rooms.get(path.parent, 0) + (path.name != "__init__.py")
    assert not {str(room): size for room, size in rooms.items() if size > MOST_MODULES}
    top = [room for room in rooms if len(room.parts) == 1]
    assert len(top) <= 9
    lines = {str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in TREES}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}
