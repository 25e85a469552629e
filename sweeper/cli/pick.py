"""``pick``: which checkpoint of a sweep to take, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeper.cli.options import command, json_option
from sweeper.settings.fields import PICK
from sweeper.settings.sources import Problem, Raw

if TYPE_CHECKING:
    from sweeper.export.pick import Choice


@command(PICK, click.argument("folder", type=click.Path()), json_option("Print the choice as JSON on stdout."))
def pick(raw: Raw, problems: list[Problem], *, folder: str, as_json: bool) -> None:
    """Choose a checkpoint of the sweep in FOLDER, and say whether it is good.

    Candidates are the ends of finished trials and the other epochs on the frontier; a metric that was not measured
    meets no limit. Without a rule the choice is the report's answer: among the models that meet the thresholds
    (--constraint of the sweep, else the paper's) the one nearest to the ideal corner; if none does, the closest.

    \b
    knee        the model nearest to the ideal corner of the frontier, objectives scaled to [0, 1]
    constraint  the best utility within the limits (--max-verbmem 0.1, ...)
    success     the best utility that meets the thresholds; the paper's are verbmem below 0.1,
                utility and truth ratio at least 70% of the target's (No-unlearn)

    \b
    python -m sweeper pick DIR --where 'verbmem<=0.1' --maximize utility --export model
    """
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(folder))  # before anything reads a registry

    from sweeper.export.pick import choose

    chosen = choose(Path(folder), raw, problems)
    if as_json:
        click.echo(json.dumps(chosen.content))
        if chosen.content["checkpoint"] is None:
            click.echo(chosen.missing, err=True)
        return
    click.echo("\n".join(_lines(chosen)))


def _lines(chosen: Choice) -> Iterator[str]:
    from analysis.words import number, settings_in_words

    row = chosen.found.row
    yield f"{chosen.name}: {settings_in_words(row, chosen.table.varying)}"
    yield f"why: {chosen.found.reason}"
    for line in chosen.judgement.lines:
        yield f"judgement: {line}"
    before = chosen.sweep.baseline_of(row)
    width = max(map(len, chosen.metrics), default=0)
    for column, value in chosen.metrics.items():
        target = f"   (No-unlearn {number(before[column])})" if column in before else ""
        yield f"  {column:<{width}}  {number(value)}{target}"
    yield from (str(item["words"]) for item in chosen.near)
    gone = " (does not exist any more)" if chosen.checkpoint is not None and not chosen.exists else ""
    yield f"checkpoint: {chosen.checkpoint or 'none was saved'}{gone}"
    yield from chosen.notes
    if registered := chosen.content.get("registered"):
        name, run = registered["version"], registered["run_id"]
        yield f"registered: {registered['uri']} (version {name}, of run {run})"
