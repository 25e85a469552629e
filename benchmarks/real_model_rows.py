"""Make the data for docs/results.md: ten short questions on one author (to forget) and ten on another (to retain).

    python benchmarks/real_model_rows.py TOFU DIR

The folder ``TOFU`` has forget01.json and retain99.json. The script writes forget.jsonl and retain.jsonl into ``DIR``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

QUESTIONS_PER_AUTHOR, ROWS = 20, 10


def main() -> None:
    tofu, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (("forget", "forget01"), ("retain", "retain99")):
        lines = (tofu / f"{table}.json").read_text(encoding="utf-8").splitlines()[:QUESTIONS_PER_AUTHOR]
        rows = sorted(map(json.loads, lines), key=lambda row: len(row["question"] + row["answer"]))[:ROWS]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
