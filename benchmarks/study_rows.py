"""Rows of benchmark runs in CSV files. Each finished run is appended at once, so a second call makes only the rest."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

Row = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file, or an empty list if the file does not exist."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def appending(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Iterable[Mapping[str, object]]], None]]:
    """Yield a function that appends rows to a CSV file and flushes them. A new file gets a header first."""
    is_new = not path.is_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()

        def append(rows: Iterable[Mapping[str, object]]) -> None:
            writer.writerows(rows)
            file.flush()

        yield append


def row_keys(rows: Iterable[Mapping[str, str]], names: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the values of the columns ``names`` in all rows, to find which runs are missing."""
    return {tuple(row[name] for name in names) for row in rows}


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
