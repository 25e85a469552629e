"""``report``: draw a sweep's frontier and write its report anew."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sweeper.commands.errors import Problems, plain_errors


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the frontier as JSON on stdout.")
@plain_errors
def report(folder: str, as_json: bool) -> None:
    """Write pareto.json, pareto.png, pareto.svg and report.html from the tables in FOLDER, also while a sweep runs."""
    out = Path(folder)
    if not (out / "sweep.json").is_file():
        raise Problems([f"{out} holds no sweep: there is no sweep.json in it"])
    from analysis.report import write_report

    write_report(out)
    if as_json:
        click.echo(json.dumps(json.loads((out / "pareto.json").read_text(encoding="utf-8"))))
    else:
        click.echo(f"report: {out / 'report.html'}")
