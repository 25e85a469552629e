"""Summarise the faults that tests/e2e/test_any_order.py injects: number, exit codes and time until the sweep continued.

    FAULT_SEEDS=0:20 FAULT_TABLE=faults.csv python -m pytest tests/e2e/test_any_order.py
    python benchmarks/fault_table.py faults.csv

Prints a Markdown table with the seconds from a fault until the command ended, and the seconds from the start of
``resume`` until the sweep made progress. Each cell has the median, and the maximum in brackets.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path


def main() -> None:
    found: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    with Path(sys.argv[1]).open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["fault"]].append(row)
    print("| fault | times | exit codes | seconds until the command ended | seconds until `resume` continued |")
    print("|---|---|---|---|---|")
    for fault, rows in sorted(found.items(), key=lambda item: -len(item[1])):
        codes = ", ".join(
            f"{code} ({times})" for code, times in Counter(row["exit_code"] for row in rows).most_common()
        )
        times = " | ".join(in_words([row[name] for row in rows]) for name in ("seconds_to_end", "seconds_to_go_on"))
        print(f"| {fault} | {len(rows)} | {codes} | {times} |")
    seeds = {row["seed"] for rows in found.values() for row in rows}
    print(f"\n{sum(map(len, found.values()))} faults in {len(seeds)} stories")


def in_words(values: list[str]) -> str:
    """Return the median and the maximum of the non-empty values as text."""
    seconds = [float(value) for value in values if value]
    return f"{statistics.median(seconds):.0f} ({max(seconds):.0f})" if seconds else "-"


if __name__ == "__main__":
    main()
