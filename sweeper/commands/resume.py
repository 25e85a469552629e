"""``resume``: go on with a sweep that was interrupted or killed."""

from __future__ import annotations

from pathlib import Path

import click

from sweeper.commands.errors import plain_errors, refuse
from sweeper.commands.pareto import run_to_the_end


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--extend", is_flag=True, help="Of an lr-study: run rates beyond the edge of its grid, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@plain_errors
def resume(folder: str, as_json: bool, extend: bool) -> None:
    """Go on with the sweep in FOLDER: finished trials are kept, running ones continue."""
    out = Path(folder)
    if extend:
        refuse(_not_a_study(out))
    run_to_the_end(out, as_json=as_json, change={"extend": True} if extend else {})


def _not_a_study(out: Path) -> list[str]:
    from sweeper.folder import read_settings
    from sweeper.settings import LR_STUDY

    study = read_settings(out).kind == LR_STUDY
    return [] if study else [f"--extend: the sweep in {out} is no learning-rate study and has no edge to go beyond"]
