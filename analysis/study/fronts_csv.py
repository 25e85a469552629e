"""lr_study.csv: every front of a study, one a row, with its hypervolume in every box."""

from __future__ import annotations

import csv
import io
import math

from analysis.study.lr_grid import LrGrid
from analysis.study.ruin import ruin


def fronts_csv(grid: LrGrid) -> str:
    """A row for each (problem, method, learning rate or AutoLR's start, seed); a missing number is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    boxes = [f"hypervolume_{box.replace(' ', '_')}" for box in grid.boxes]
    head = ("model", "dataset", "apart", "method", "auto_lr", "lr", "seed", "trials", "missing", "ruined_runs")
    writer.writerow((*head, "hypervolume", *boxes))
    for unit in grid.units:
        case = unit.case
        ruined = ruin([[unit]])
        volumes = [unit.hypervolume, *map(unit.further_hypervolume, grid.boxes)]
        writer.writerow(
            (
                *(case.model, case.dataset, case.apart, case.method, unit.variant or "off", unit.lr, unit.seed),
                *(len(unit.trials), len(unit.missing), "" if ruined.runs_unknown else ruined.runs),
                *("" if math.isnan(volume) else repr(volume) for volume in volumes),
            )
        )
    return buffer.getvalue()
