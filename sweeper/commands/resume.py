"""``resume``: go on with a sweep that was interrupted or killed."""

from __future__ import annotations

from pathlib import Path

import click

from sweeper.commands.errors import plain_errors
from sweeper.commands.pareto import run_to_the_end


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@plain_errors
def resume(folder: str, as_json: bool) -> None:
    """Go on with the sweep in FOLDER: finished trials are kept, running ones continue."""
    run_to_the_end(Path(folder), as_json=as_json)
