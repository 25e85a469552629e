"""``cache``: what is kept between sweeps, how large and how old it is, and how to be rid of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from sweeper.cli import options
from sweeper.cli.errors import plain_errors, refuse

_DAY = 86_400.0
_TARGETS, _UNFINISHED = "targets", "unfinished"


@dataclass(frozen=True, slots=True)
class Entry:
    """A model, or all small files of a kind. ``days`` since it was last used; ``paths`` are what it is made of."""

    kind: str
    what: str
    bytes: int
    days: float
    paths: tuple[str, ...]


@click.command()
@click.option("--prune", is_flag=True, help="Remove what was not used for a while.")
@click.option("--older-than", type=options.NUMBER, default=30.0, show_default=True, help="... for so many days.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON on stdout.")
@plain_errors
def cache(prune: bool, older_than: float | None, as_json: bool) -> None:
    """List the targets and scores that are kept between sweeps, with their size and age.

    What is removed is made anew when a sweep needs it. Nothing of a sweep's own folder is in the cache, nor are
    models and data of the Hugging Face hub, which keeps its own ('hf cache').
    """
    from search_spaces.durable import remove_whole
    from search_spaces.messages import size
    from trainables.target.cache import cache_folder

    problems = options.given_problems()
    if older_than is not None and not older_than >= 0:
        problems.append(f"--older-than must be at least 0 days, got {older_than:g}")
    refuse(problems)
    assert older_than is not None
    folder = cache_folder()
    found = list(entries(folder, now=time.time(), older_than=older_than if prune else None))
    for path in (path for entry in found if prune for path in entry.paths):
        remove_whole(Path(path))
    total = sum(entry.bytes for entry in found)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "removed": prune, "entries": [asdict(entry) for entry in found]}))
        return
    width = max((len(entry.what) for entry in found), default=0)
    for entry in sorted(found, key=lambda entry: -entry.bytes):
        click.echo(f"{entry.kind:<20} {entry.what:<{width}}  {size(entry.bytes):>7}  {_ago(entry.days)}")
    if prune:
        click.echo(f"{size(total)} freed in {folder}" if found else f"nothing in {folder} is that old")
    else:
        click.echo(f"{size(total)} in {folder}; --prune removes what was not used for {older_than:g} days")


def entries(folder: Path, *, now: float, older_than: float | None = None) -> Iterator[Entry]:
    """What the cache holds; with ``older_than`` what was not used for so many days, and what killed writers left."""
    from search_spaces.durable import is_leftover
    from search_spaces.messages import counted

    for room in sorted(path for path in folder.glob("*") if path.is_dir()):
        small = []
        for path in sorted(room.iterdir()):
            days = max(0.0, now - _used(path)) / _DAY
            left = is_leftover(path)
            if older_than is not None and days < (1.0 if left else older_than):
                continue
            if left:
                yield Entry("of a killed process", path.name, _bytes(path), days, (str(path),))
            elif room.name in (_TARGETS, _UNFINISHED):
                kind = "target" if room.name == _TARGETS else "unfinished training"
                yield Entry(kind, f"{path.stem} {_about(path)}".rstrip(), _bytes(path), days, (str(path),))
            else:
                small.append((path, days))
        if small:
            paths = tuple(str(path) for path, _ in small)
            days = min(days for _, days in small)
            yield Entry(room.name, counted(len(small), "file"), sum(_bytes(path) for path, _ in small), days, paths)


def _used(path: Path) -> float:
    """When it was last used: a target's record is touched by whoever takes it."""
    record = path / "target.json"
    return (record if record.is_file() else path).stat().st_mtime


def _about(path: Path) -> str:
    """``tiny-phi on authors``, as the target's record says."""
    try:
        made_from = json.loads((path / "target.json").read_text(encoding="utf-8"))
        return f"{made_from['model']} on {made_from['data']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _bytes(path: Path) -> int:
    return sum(part.stat().st_size for part in (path, *path.rglob("*")) if part.is_file())


def _ago(days: float) -> str:
    if days >= 2:
        return f"used {days:.0f} days ago"
    return f"used {days * 24:.0f} h ago" if days * 24 >= 1 else "used within the hour"
