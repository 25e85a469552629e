"""``target``: make the target model of an unlearning problem, or find it in the cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click

from sweeper.commands import options
from sweeper.commands.errors import Problems, goes_on_with, plain_errors


@click.command()
@options.fields("data", "placement", but=("retain_path",))
@click.option("--retain-only", is_flag=True, help="The retain model: the same recipe on the retain set alone.")
@click.option("--out", type=click.Path(), help="Copy the model's folder here.")
@click.option("--json", "as_json", is_flag=True, help="Print the target's folder and scores as JSON on stdout.")
@plain_errors
def target(**given: Any) -> None:
    """Fine-tune the target, the model trials start from, or take it from the cache; prints where it is.

    With --retain-only it is the model that never saw the forget set, which forget quality and privleak compare with.
    A killed training goes on where it was last saved. The folder loads with transformers' from_pretrained.
    """
    from sweeper.commands.checks import base_spec, output_problems, source_problems, spec_problems
    from sweeper.commands.pareto import command_line

    problems = options.given_problems()
    spec = base_spec(given, problems)
    problems += spec_problems(spec, (), {})
    problems += output_problems(given["out"])
    out = Path(given["out"]) if given["out"] else None
    problems += source_problems(spec, ask_hub=not problems)
    if given["retain_only"] and given["target_path"]:
        problems.append("--retain-only trains a base model: give it with --model or --model-path, not --target-path")
    if problems:
        raise Problems(problems)

    from rich.console import Console

    from sweeper.progress import prepare_with_progress, retain_model_with_progress

    command = command_line()
    if given["retain_only"]:
        with goes_on_with(command):
            made_at = str(retain_model_with_progress(spec, console=Console(stderr=True)))
        if out is not None:
            shutil.copytree(made_at, out, dirs_exist_ok=True)
            made_at = str(out)
        click.echo(json.dumps({"path": made_at}) if given["as_json"] else made_at)
        return
    with goes_on_with(command):
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
