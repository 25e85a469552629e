"""``unlearn``: one run, without Ray."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from sweeper.cli import options
from sweeper.cli.config_file import CONFIG
from sweeper.cli.dry_run import dry_run_options, say_plan_of_run
from sweeper.cli.errors import FAILED, Problems, exit_with, goes_on_with, plain_errors
from sweeper.cli.plugin_option import PLUGIN


@click.command()
@options.field("method", multiple=True)
@options.fields("data", "placement")
@CONFIG
@PLUGIN
@click.option("--c", type=options.NUMBER, multiple=True, help="gdiff's weight on the retain loss.")
@options.field("lr", multiple=True)
@options.field("auto_lr", default="off")
@options.fields("training", "scoring", "method", "auto_lr")
@options.METHOD_OPTION
@options.field("seed", default=0)
@click.option(
    "--landscape",
    type=options.WHOLE,
    metavar="POINTS",
    help="With --auto-lr on and --out: evaluate both losses at so many points along each of AutoLR's steps.",
)
@click.option("--out", type=click.Path(), help="Write checkpoint/, history.csv and metrics.json here.")
@dry_run_options
@click.option("--json", "as_json", is_flag=True, help="Print metrics.json on stdout.")
@plain_errors
def unlearn(**given: Any) -> None:
    """Unlearn one model with one method and learning rate, and score it.

    With --out the same command goes on with a run that was interrupted or killed, from its last saved state.
    """
    from sweeper.checks.specs import GOES_ON
    from sweeper.cli.from_options import single_spec
    from sweeper.cli.pareto import command_line

    click.get_current_context().meta[GOES_ON] = True
    spec = single_spec(given)
    out = Path(given["out"]) if given["out"] else None
    points = given["landscape"] or 0

    from sweeper.cli.console import own_console
    from sweeper.single_run import run_once
    from sweeper.store.columns import METRIC_COLUMNS
    from sweeper.store.unfinished_run import other_run_problem

    if out is not None and (problem := other_run_problem(out, spec, landscape_points=points)):
        raise Problems([problem])
    if given["dry_run"]:
        say_plan_of_run(spec, out, measure=given["measure"], as_json=given["as_json"])
        return
    command = command_line()
    if out is None:
        click.echo("no --out: the unlearned model is scored, and then thrown away; --out DIR keeps it", err=True)
    with goes_on_with(command, "" if out is not None else "; without --out only its target is kept"):
        console = own_console()
        row = run_once(spec, out=out, console=console, started=time.time(), landscape_points=points, command=command)
    if given["as_json"]:
        click.echo(json.dumps(row))
    else:
        shown = [name for name in ("status", "steps", *METRIC_COLUMNS) if row.get(name) is not None]
        width = max(map(len, (*shown, "written to")))
        for name in shown:
            click.echo(f"{name:<{width}} {row[name]}")
        if out is not None:
            click.echo(f"{'written to':<{width}} {out}")
    if row["status"] != "finished":
        exit_with([str(row["error"])], FAILED)
