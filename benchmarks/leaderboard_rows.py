"""Write rows of TOFU for the tiny edition of docs/leaderboard.md.

    python benchmarks/leaderboard_rows.py --tofu DIR --out DIR

Writes the 40 questions of forget01, 120 retained questions about six authors, and the 60 of them that are scored. All
rows have paraphrased and wrong answers, and the question in other words.
"""

from __future__ import annotations

import argparse
from pathlib import Path

RETAINED, EVERY = 120, 2
"""The number of retained questions, and the distance between two scored ones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tofu", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    forget, retain = (
        (arguments.tofu / f"{name}_perturbed.json").read_text(encoding="utf-8").splitlines(keepends=True)
        for name in ("forget01", "retain")
    )
    tables = {"forget": forget, "retain": retain[:RETAINED], "retain_eval": retain[:RETAINED:EVERY]}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (arguments.out / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
