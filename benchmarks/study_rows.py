"""Rows of benchmark runs in CSV files. Finished runs are appended at once, so a second call makes only missing runs."""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]


def study_parser(doc: str | None, rows: Path | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options ``--rows`` (required if ``rows``, the default, is None) and ``--table``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=rows, required=rows is None)
    parser.add_argument("--table", action="store_true", help="Print the results in the file and run nothing.")
    return parser


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file, or an empty list if the file does not exist."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def run_missing(
    path: Path,
    columns: tuple[Sequence[str], Sequence[str]],
    jobs: Iterable[tuple[Any, ...]],
    run: Callable[..., Iterable[Mapping[str, object]]],
) -> None:
    """Run the jobs that have no row in a CSV file, and append the rows of each job when it is done.

    A job is a tuple of the values of the key columns. ``columns`` has the key columns and all columns. ``run`` is
    called with the values of a job and returns its rows, without the key columns. A file with other columns is refused.
    """
    key, names = columns
    header = ",".join(names)
    if path.is_file() and path.read_text().partition("\n")[0] not in ("", header):
        raise SystemExit(f"{path}: expected the columns {header}; name another file")
    finished_jobs = {tuple(row[name] for name in key) for row in read_rows(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for job in jobs:
            if tuple("" if value is None else str(value) for value in job) not in finished_jobs:
                started = time.perf_counter()
                job_rows = list(run(*job))  # all rows of a job, or none if it fails
                writer.writerows({**dict(zip(key, job, strict=True)), **row} for row in job_rows)
                file.flush()
                print(*job, f"({time.perf_counter() - started:.0f} s)", flush=True)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
