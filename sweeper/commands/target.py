"""``target``: make the target model of an unlearning problem, or find it in the cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click

from sweeper.commands import options
from sweeper.commands.errors import Problems, plain_errors


@click.command()
@options.model_options
@click.option(
    "--max-length", type=options.WHOLE, help="Cut sequences after this many tokens.  [default: 512; MUSE 2048]"
)
@click.option("--out", type=click.Path(), help="Copy the target's folder here.")
@click.option("--json", "as_json", is_flag=True, help="Print the target's folder and scores as JSON on stdout.")
@plain_errors
def target(**given: Any) -> None:
    """Fine-tune the target, the model trials start from, or take it from the cache; prints where it is."""
    from sweeper.commands.common import base_spec, given_problems, output_problems, source_problems, spec_problems

    problems = given_problems()
    spec = base_spec(given, problems)
    problems += spec_problems(spec, (), {})
    problems += output_problems(given["out"])
    out = Path(given["out"]) if given["out"] else None
    problems += source_problems(spec, ask_hub=not problems)
    if problems:
        raise Problems(problems)

    from rich.console import Console

    from sweeper.targets import prepare_with_progress

    made = prepare_with_progress(spec, console=Console(stderr=True))
    folder = made.path
    if out is not None:
        shutil.copytree(made.path, out, dirs_exist_ok=True)
        folder = str(out)
    if given["as_json"]:
        click.echo(json.dumps({"path": folder, "key": made.key, "baseline": made.baseline}))
    else:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in made.baseline.items())
        click.echo(f"{folder}\n{scores}")
