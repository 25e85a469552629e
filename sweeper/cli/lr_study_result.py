"""What ``lr-study`` says at its end: lr_study.json and a readable verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from analysis.study.lr_study import LrStudy
    from analysis.tables.trade_off import Objective as Axis
    from analysis.words import DataTable


def judge(folders: Sequence[Path], *, target: Path | None = None, objectives: str | None = None) -> LrStudy:
    """Judge finished sweeps together; writes lr_study.json, into the first folder if no ``target`` is named.

    ``objectives``, as ``--objectives`` has them, are judged by in place of the sweeps' own.
    """
    from analysis.report.study import write_study
    from analysis.study.lr_study import read_study

    study = read_study(folders, _axes(folders[0], objectives) if objectives else ())
    write_study(target or folders[0] / "lr_study.json", study)
    return study


def _axes(folder: Path, objectives: str) -> tuple[Axis, ...]:
    from analysis.tables.sweep_file import SweepFile
    from sweeper.settings.objectives import axes, parse_objectives
    from trainables.modality import dataset_modality

    sweep = SweepFile.read(folder)
    base = sweep.settings.get("base") or {}
    unit = dataset_modality(str(base.get("dataset"))).unit
    return axes(parse_objectives(objectives), sweep.random_guess_loss or 0.0, unit=unit)


def judged_extension(out: Path) -> dict[str, Any]:
    """The settings under which a study with ``--extend`` goes on beyond its grid; says what is added and why.

    Empty where nothing is added: the best rates lie inside, or what may be added has been, or was not asked for.
    """
    from sweeper.search.lr_extension import extended, extensions, format_extensions
    from sweeper.store.folder import read_settings
    from sweeper.store.tables import ResultTables

    settings = read_settings(out)
    if not settings.extend or len(ResultTables(out).trials.read()) < settings.trials:
        return {}
    found = extensions(judge([out]), settings)
    for line in format_extensions(found):
        click.echo(line, err=True)
    return extended(settings, found) if any(item.rates for item in found) else {}


def print_study(study: LrStudy) -> None:
    """Sensitivity and fronts as tables, and the verdicts in sentences."""
    from rich.console import Console

    from analysis.report.render import note_text
    from analysis.report.study import (
        arms_table,
        rates_table,
        sensitivity_line,
        study_cautions,
        study_headline,
        verdict_lines,
    )

    # No colour codes and no folding in a file or a pipe.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print("\n".join([study_headline(study), *study_cautions(study)]), end="\n\n")
    for item in study.sensitivity:
        _print_table(console, rates_table(item, study.grid.columns))
        console.print(sensitivity_line(item), end="\n\n")
    for fronts in study.fronts:
        _print_table(console, arms_table(fronts))
        console.print()
    for verdict in study.verdicts:
        for line in verdict_lines(verdict):
            console.print(f"- {line}")
    for note in study.notes:
        console.print(f"note: {note_text(note)}")


def _print_table(console: Console, data: DataTable) -> None:
    from rich.table import Table

    table = Table(title=data.caption, title_justify="left")
    for index, name in enumerate(data.columns):
        table.add_column(name, justify="right" if index else "left", no_wrap=not index)
    for row in data.rows:
        table.add_row(*row)
    console.print(table)
