"""``compare``: the paper's tables, methods by metrics, without and with AutoLR."""

from __future__ import annotations

import json
from pathlib import Path

import click

from search_spaces.messages import expected_one_of, no_sweep
from sweeper.cli.errors import plain_errors, refuse

FORMATS = ("md", "tex", "csv", "html")


@click.command()
@click.argument("sources", nargs=-1, type=click.Path())
@click.option("--out", type=click.Path(), help="Folder for comparison.md, .tex, .csv and .html.")
@click.option("--format", "chosen", default="md", show_default=True, help="What to print: md, tex, csv or html.")
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON on stdout.")
@plain_errors
def compare(sources: tuple[str, ...], out: str | None, chosen: str, as_json: bool) -> None:
    """Compare the methods of one or several sweep folders and CSV files, without and with AutoLR."""
    problems = [] if sources else ["name at least one sweep folder or CSV file to compare"]
    if chosen not in FORMATS:
        problems.append(f"unknown format '{chosen}': {expected_one_of(chosen, FORMATS)}")
    problems += [
        no_sweep(source)
        for source in sources
        if not Path(source).is_file() and not (Path(source) / "sweep.json").is_file()
    ]
    if out is not None and Path(out).is_file():
        problems.append(f"--out {out}: this is a file, expected a folder")
    refuse(problems)
    from analysis.comparison.comparison import comparison_data, comparison_parts
    from analysis.report.comparison import FORMATS as WRITERS
    from analysis.report.comparison import comparison_content
    from analysis.tables.columns import Columns
    from search_spaces.durable import write_whole
    from sweeper.store.columns import column_dictionary

    columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
    tables = comparison_data(comparison_parts([Path(source) for source in dict.fromkeys(sources)], columns))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        for suffix, write in WRITERS.items():
            write_whole(Path(out) / f"comparison.{suffix}", write(tables))
    if as_json:
        click.echo(json.dumps(comparison_content(tables)))
    else:
        click.echo(WRITERS[chosen](tables), nl=False)
