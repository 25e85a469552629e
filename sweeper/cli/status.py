"""``status``: how a sweep stands, from another terminal or afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sweeper.cli.errors import plain_errors


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON on stdout.")
@plain_errors
def status(folder: str, as_json: bool) -> None:
    """Say how the sweep in FOLDER stands, while it runs or afterwards; reads files and changes nothing."""
    from sweeper.followers.status import read_status, words

    standing = read_status(Path(folder))
    click.echo(json.dumps(standing.to_dict()) if as_json else "\n".join(words(standing)))
