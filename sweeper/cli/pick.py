"""``pick``: which checkpoint of a sweep to take, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.cli import options
from sweeper.cli.errors import Problems, plain_errors, refuse
from sweeper.cli.hand_over import (
    HandedOver,
    Model,
    hand_over,
    hand_over_problems,
    is_handed_over,
    measured_of,
)
from sweeper.cli.pick_options import LIMITED, Asked, read_asked
from sweeper.store.plugins import restore_plugins

if TYPE_CHECKING:
    from analysis.report.choice import ChoiceJudged, Taken
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable


def _limit_options(command: Any) -> Any:
    for name in reversed(LIMITED):
        flag = name.replace("_", "-")
        command = click.option(f"--min-{flag}", type=options.NUMBER, help=f"At least this {name}.")(command)
        command = click.option(f"--max-{flag}", type=options.NUMBER, help=f"At most this {name}.")(command)
    return command


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--rule", help="knee, constraint or success.  [default: the report's answer; with limits, constraint]")
@click.option(
    "--where", multiple=True, metavar="COLUMN<=VALUE", help="A limit on any numeric column: 'lr<=1e-4'; repeats."
)
@click.option("--maximize", multiple=True, metavar="COLUMN", help="Take the largest of this column.")
@click.option("--minimize", multiple=True, metavar="COLUMN", help="Take the smallest of this column.")
@_limit_options
@click.option(
    "--constraint", multiple=True, metavar="METRIC>=VALUE", help="A limit, also to judge by: utility>=70%; repeats."
)
@click.option("--copy-to", type=click.Path(), help="Copy the checkpoint to this new folder.")
@click.option(
    "--export", type=click.Path(), help="Write it to this new folder with a model card, to load without this project."
)
@click.option("--merge", is_flag=True, help="With --export: merge a LoRA adapter into the full weights.")
@click.option("--register", metavar="NAME", help="Make it a version of this model in MLflow's model registry.")
@click.option("--alias", help="With --register: the alias this version gets.")
@click.option("--tracking-uri", help="With --register: MLflow's address.  [default: the sweep's]")
@click.option("--json", "as_json", is_flag=True, help="Print the choice as JSON on stdout.")
@plain_errors
def pick(folder: str, as_json: bool, **given: Any) -> None:
    """Say which checkpoint of the sweep in FOLDER to take, and whether any is worth taking.

    It is the end of a finished trial or another epoch on the frontier; what was not measured of an epoch is within
    no limit. Without a rule it is the report's answer: of those that meet the thresholds (--constraint of the sweep,
    else the paper's) the one nearest to the ideal corner or, where none does, what comes closest.

    \b
    knee        what is nearest to the ideal corner of the frontier, objectives scaled to [0, 1]
    constraint  the best utility within the limits (--max-verbmem 0.1, ...)
    success     the best utility of what meets the thresholds; the paper's are verbmem below
                0.1, utility and truth ratio at least 70% of No-unlearn

    \b
    python -m sweeper pick DIR --where 'verbmem<=0.1' --maximize utility --export model
    """
    restore_plugins(Path(folder))  # before anything looks at what there is to choose

    from sweeper.cli.pareto import command_line

    found = chosen(folder, given, command=command_line())
    if as_json:
        click.echo(json.dumps(found.content))
        if found.content["checkpoint"] is None:
            click.echo(found.missing, err=True)
        return
    click.echo("\n".join(found.lines))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice for machines (``content``) and for people (``lines``), and what to say where its checkpoint is gone."""

    content: dict[str, Any]
    lines: tuple[str, ...]
    missing: str


def chosen(folder: str, given: Mapping[str, Any], *, command: str) -> Chosen:
    """What ``pick`` answers; ``given`` has its options by name, ``command`` is what was typed for them.

    Raises:
        Problems, AnalysisError: with plain sentences.
    """
    from analysis.report.choice import choose, neighbour_entries
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable
    from analysis.words import model_name
    from search_spaces.constraint import parse_constraint

    out, problems = Path(folder), options.given_problems()
    asked = read_asked(given, out, problems)
    refuse([*problems, *hand_over_problems(given, out)])
    sweep = SweepFile.read(out)
    named = {parse_constraint(text).name for text in given["constraint"]}
    kept = [text for text in sweep.constraints if parse_constraint(text).name not in named]
    sweep = replace(sweep, settings={**sweep.settings, "constraints": [*given["constraint"], *kept]})
    table = TrialTable.read(out, sweep=sweep.name)
    found, judgement = choose(table, sweep, rule=asked.rule, limits=asked.limits, best=asked.best)
    near = neighbour_entries(found.row, table, sweep, limits=asked.limits, best=asked.best)
    checkpoint = out / str(found.row["checkpoint"]) if found.row["checkpoint"] else None
    there = checkpoint is not None and checkpoint.is_dir()
    name = model_name(found.row, with_epoch=table.every_epoch)
    missing = f"the checkpoint of {name} is not there: {checkpoint or 'none was saved'}"
    done = HandedOver()
    if is_handed_over(given):
        if checkpoint is None or not there:
            raise Problems([missing])
        model = Model(name, checkpoint, out, found, judgement, table, sweep)
        done = hand_over(model, given, command=command)
        checkpoint = Path(given["copy_to"] or checkpoint)
    where = str(checkpoint) if there else None
    content = _content(found, judgement, table, asked=asked, near=near, checkpoint=where)
    content |= done.content
    gone = "" if there or checkpoint is None else " (not there any more)"
    last = f"checkpoint: {checkpoint or 'none was saved'}{gone}"
    return Chosen(content, (*_in_words(found, judgement, table, sweep, near), last, *done.lines), missing)


def _content(
    found: Taken,
    judgement: ChoiceJudged,
    table: TrialTable,
    *,
    asked: Asked,
    near: tuple[Mapping[str, object], ...],
    checkpoint: str | None,
) -> dict[str, Any]:
    from analysis.frontier.pareto_json import plain, whole

    row = found.row
    content = {
        "trial_id": row["trial_id"],
        "epoch": whole(row["epoch"]),
        "spec_hash": row["spec_hash"],
        "rule": asked.said,
        "reason": found.reason,
        "judgement": asdict(judgement),
        "settings": {name: row[name] for name in table.spec_columns},
        "metrics": measured_of(row, table),
        "checkpoint": checkpoint,
        "eligible": found.eligible,
        "neighbours": list(near),
    }
    plain_content: Any = plain(content)
    return dict(plain_content)


def _in_words(
    found: Taken,
    judgement: ChoiceJudged,
    table: TrialTable,
    sweep: SweepFile,
    near: tuple[Mapping[str, object], ...],
) -> Iterator[str]:
    from analysis.words import model_name, number, settings_in_words

    name = model_name(found.row, with_epoch=table.every_epoch)
    yield f"{name}: {settings_in_words(found.row, table.varying)}"
    yield f"why: {found.reason}"
    for line in judgement.lines:
        yield f"judgement: {line}"
    metrics, before = measured_of(found.row, table), sweep.baseline_of(found.row)
    width = max(map(len, metrics), default=0)
    for column, value in metrics.items():
        unlearned = f"   (No-unlearn {number(before[column])})" if column in before else ""
        yield f"  {column:<{width}}  {number(value)}{unlearned}"
    yield from (str(item["words"]) for item in near)
