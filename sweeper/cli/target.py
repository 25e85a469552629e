"""``target``: make the target model of an unlearning problem, or find it in the cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click

from sweeper.cli import options
from sweeper.cli.errors import goes_on_with, plain_errors
from sweeper.cli.plugin_option import PLUGIN


@click.command()
@options.fields("data", "placement", but=("retain_path",))
@PLUGIN
@click.option("--retain-only", is_flag=True, help="The retain model: the same recipe on the retain set alone.")
@click.option("--out", type=click.Path(), help="Copy the model's folder here.")
@click.option("--json", "as_json", is_flag=True, help="Print the target's folder and scores as JSON on stdout.")
@plain_errors
def target(**given: Any) -> None:
    """Fine-tune the target, the model trials start from, or take it from the cache; prints where it is.

    With --retain-only it is the model that never saw the forget set, which forget quality and privleak compare with.
    A killed training goes on where it was last saved. The folder loads with transformers' from_pretrained.
    """
    from sweeper.checks.specs import checked_spec
    from sweeper.cli.pareto import command_line

    problems = []
    if given["retain_only"] and given["target_path"]:
        problems.append("--retain-only trains a base model: give it with --model or --model-path, not --target-path")
    spec = checked_spec(given, problems)

    from sweeper.cli.console import own_console
    from sweeper.execution.target_task import prepare_with_progress, retain_model_with_progress

    console = own_console()
    with goes_on_with(command_line()):
        made = None if given["retain_only"] else prepare_with_progress(spec, console=console)
        folder = str(retain_model_with_progress(spec, console=console)) if made is None else made.path
    if given["out"]:
        shutil.copytree(folder, given["out"], dirs_exist_ok=True)
        folder = str(Path(given["out"]))
    if given["as_json"]:
        scored = {"key": made.key, "baseline": made.baseline} if made is not None else {}
        click.echo(json.dumps({"path": folder, **scored}))
        return
    click.echo(folder)
    if made is not None:
        click.echo(", ".join(f"{name} {value:.4g}" for name, value in made.baseline.items()))
