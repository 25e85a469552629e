"""What ``lr-study`` says at its end: lr_study.json and a readable verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.study.lr_study import LrStudy


def write_lr_study(out: Path) -> LrStudy:
    """Judge the sweep in a folder and write lr_study.json into it."""
    from analysis.study.lr_study import read_study, write_study

    study = read_study([out])
    write_study(out / "lr_study.json", study)
    return study


def judge(folders: Sequence[Path], *, target: str | None, as_json: bool) -> None:
    """Judge finished sweeps together, without running anything."""
    from analysis.study.lr_study import read_study, write_study

    study = read_study(folders)
    write_study(Path(target) if target else folders[0] / "lr_study.json", study)
    if as_json:
        click.echo(json.dumps(study.to_dict()))
    else:
        print_study(study)


def print_study(study: LrStudy) -> None:
    """Sensitivity as a table, and the verdicts in sentences."""
    from rich.console import Console
    from rich.table import Table

    from analysis.study.verdict_words import words
    from analysis.words import number

    # No colour codes and no folding in a file or a pipe.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for item in study.sensitivity:
        where = f"{item.problem.method} on {item.problem.model}, {item.problem.dataset}"
        table = Table(title=f"{where}: hypervolume by learning rate", title_justify="left")
        for name in ("lr", "hypervolume", "± over seeds", "seeds", "diverged", "verbmem", "utility"):
            table.add_column(name, justify="left" if name == "lr" else "right")
        rows = [(f"{row.lr:g}", row) for row in item.rates]
        rows += [(f"AutoLR {place.variant} from {row.lr:g}", row) for place in item.auto for row in place.starts]
        for label, row in rows:
            shown = [row.metrics.get(name) for name in ("verbmem", "utility")]
            numbers = (number(row.hypervolume), number(row.deviation), str(row.seeds), str(row.diverged))
            table.add_row(label, *numbers, *map(number, shown))
        console.print(table)
        console.print(item.words())
        console.print()
    for fronts in study.fronts:
        table = Table(title=f"{fronts.model}, {fronts.dataset}: all trials of an arm together", title_justify="left")
        for name in ("arm", "trials", "hypervolume", "IGD+", "epsilon"):
            table.add_column(name, justify="left" if name == "arm" else "right")
        for arm, found in fronts.indicators.items():
            table.add_row(
                arm, str(fronts.trials[arm]), *map(number, (found.hypervolume, found.igd_plus, found.epsilon))
            )
        console.print(table)
        places = ", ".join(f"{place:g}" for place in fronts.sensitivity.references)
        order = "is the same" if fronts.sensitivity.stable else "is NOT the same"
        console.print(f"The arms' order by hypervolume {order} with the reference point at {places}.")
        console.print("This is no test: the front of more trials reaches further by chance alone.")
        console.print()
    for verdict in study.verdicts:
        for line in words(verdict):
            console.print(f"- {line}")
    if not study.verdicts:
        console.print("No seed has whole fronts both for fixed learning rates and for AutoLR: there is no verdict.")
    for note in study.notes:
        console.print(f"note: {note}")
