"""The folder of an earlier sweep as a table: its trials, and what each of their epochs gave."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

from search_spaces.space import Space
from sweeper.attained import number
from sweeper.folder import read_settings
from sweeper.simulation.row_space import Cells, config_of
from sweeper.simulation.table import Run, TableError


def read_sweep(out: Path) -> tuple[list[tuple[int, Run]], float | None, Space]:
    """The runs with their seeds, the loss of a random guess, and the space that was searched.

    An epoch has what candidates.csv says of it, or history.csv where the sweep kept no candidates; the last one also
    what trials.csv says. Trials that failed, or that were not of the space (enqueued ones), are left out.
    """
    settings = read_settings(out)
    content = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    if not (out / "trials.csv").is_file():
        raise TableError(f"{out} has no finished trials yet: there is no trials.csv in it")
    kept = out / "candidates.csv"
    epochs: defaultdict[str, list[Cells]] = defaultdict(list)
    for row in _rows(kept if kept.is_file() else out / "history.csv"):
        epochs[row["trial_id"]].append(row)
    runs = []
    for row in _rows(out / "trials.csv"):
        course = sorted(epochs[row["trial_id"]], key=lambda item: number(item["epoch"]))
        config = config_of(settings.space, row)
        if config is None or not course or row["status"] == "failed":
            continue
        course[-1] = {**course[-1], **{name: cell for name, cell in row.items() if cell and name in course[-1]}}
        runs.append((int(row["seed"]), Run(row["trial_id"], config, row["status"], tuple(course))))
    return runs, content["random_guess_loss"], settings.space


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
