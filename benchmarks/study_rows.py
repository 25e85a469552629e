"""Rows of benchmark runs in CSV files. Finished runs are appended at once, so a second call makes only missing runs."""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, str]
_Result = tuple[tuple[Any, ...], float, list[Mapping[str, object]]]


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
    *,
    processes: int = 1,
) -> None:
    """Run the jobs that have no row in a CSV file, and append the rows of each job when it is done.

    A job is a tuple of the values of the key columns. ``columns`` has the key columns and all columns. ``run`` is
    called with the values of a job and returns its rows, without the key columns. A file with other columns is refused.
    With several processes, several jobs run at the same time, and ``run`` and the jobs must be picklable.
    """
    key, names = columns
    header = ",".join(names)
    if path.is_file() and path.read_text().partition("\n")[0] not in ("", header):
        raise SystemExit(f"{path}: expected the columns {header}; name another file")
    finished = {tuple(row[name] for name in key) for row in read_rows(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        missing = [job for job in jobs if tuple("" if value is None else str(value) for value in job) not in finished]
        for job, seconds, job_rows in _results(missing, run, processes):
            writer.writerows({**dict(zip(key, job, strict=True)), **row} for row in job_rows)
            file.flush()
            print(*job, f"({seconds:.0f} s)", flush=True)


def _results(
    jobs: Sequence[tuple[Any, ...]], run: Callable[..., Iterable[Mapping[str, object]]], processes: int
) -> Iterator[_Result]:
    """Yield each job with its time in seconds and its rows, as soon as the job is done."""
    if processes == 1:
        yield from (_result(run, job) for job in jobs)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_result, run, job) for job in jobs]):
            yield future.result()


def _result(run: Callable[..., Iterable[Mapping[str, object]]], job: tuple[Any, ...]) -> _Result:
    started = time.perf_counter()
    rows = list(run(*job))  # all rows of a job, or none if it fails
    return job, time.perf_counter() - started, rows


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
