"""The command ``merge``."""

from __future__ import annotations

from pathlib import Path

import click

from search_spaces.common.values import json_text
from sweeper.cli.options import command, json_option
from sweeper.settings.options import MergeOptions
from sweeper.settings.sources import Raw


@command(
    MergeOptions,
    click.argument("folder", type=click.Path()),
    json_option("Print the metrics of the merged model as JSON on stdout."),
)
def merge(raw: Raw, problems: list[str], *, folder: str, as_json: bool) -> None:
    """Merge the models of the finished sweep in FOLDER into one model, without training.

    The merged model has the target's weights plus --scale times the merged task vectors of the trials' last models. A
    task vector is the difference of a model's weights and the target's. The merged model is measured like the models of
    the sweep, and 'report FOLDER OUT --out DIR' shows it beside them. If the command is interrupted, the same command
    continues.

    \b
    negmerge  the mean of the vectors where all have the same sign, and 0 elsewhere
    mean      the mean of the vectors
    """
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(folder))  # before any registry is read
    from sweeper.console import own_console
    from sweeper.merging import judgement, planned_merge
    from sweeper.merging import merge as merge_models

    plan = planned_merge(Path(folder), raw, problems)
    row = merge_models(Path(folder), plan, console=own_console())
    judged = judgement(Path(folder), row)
    if as_json:
        click.echo(json_text({**row, "judgement": {"outcome": judged.outcome, "lines": judged.lines}}))
        return
    names = [f"trial {name}" for name in plan.trials] + [str(path) for path in plan.finetuned]
    click.echo(f"{plan.rule} of {', '.join(names)}, scale {plan.scale:g}")
    for name, value in row.items():
        if isinstance(value, float) and name != "scale":
            click.echo(f"  {name:<32} {value:.4g}")
    click.echo("\n".join(f"judgement: {line}" for line in judged.lines))
    click.echo(f"model: {plan.out / 'checkpoint'}")
