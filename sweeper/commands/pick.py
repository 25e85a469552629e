"""``pick``: which checkpoint of a sweep to take, and why."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from search_spaces.constraint import Constraint, ConstraintError
from search_spaces.messages import expected_one_of
from sweeper.commands import options
from sweeper.commands.errors import Problems, plain_errors, refuse

if TYPE_CHECKING:
    import pandas as pd

    from analysis.frontier.pick import Pick
    from analysis.page.choice import ChoiceJudged
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable

_LIMITED = ("verbmem", "utility", "truth_ratio", "forget_loss", "retain_loss")


def _limit_options(command: Any) -> Any:
    for name in reversed(_LIMITED):
        flag = name.replace("_", "-")
        command = click.option(f"--min-{flag}", type=options.NUMBER, help=f"At least this {name}.")(command)
        command = click.option(f"--max-{flag}", type=options.NUMBER, help=f"At most this {name}.")(command)
    return command


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--rule", help="knee, constraint or success.  [default: the report's answer; with limits, constraint]")
@_limit_options
@click.option(
    "--constraint", multiple=True, metavar="METRIC>=VALUE", help="A limit as in pareto: utility>=70%; repeats."
)
@click.option("--copy-to", type=click.Path(), help="Copy the checkpoint to this new folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the choice as JSON on stdout.")
@plain_errors
def pick(
    folder: str, rule: str | None, constraint: tuple[str, ...], copy_to: str | None, as_json: bool, **given: Any
) -> None:
    """Say which checkpoint of the sweep in FOLDER to take, and whether any is worth taking.

    It is the end of a finished trial or another epoch on the frontier; what was not measured of an epoch is within
    no limit. Without a rule it is the report's answer: of those that meet the thresholds (--constraint of the sweep,
    else the paper's) the one nearest to the ideal corner or, where none does, what comes closest.

    \b
    knee        what is nearest to the ideal corner of the frontier, objectives scaled to [0, 1]
    constraint  the best utility within the limits (--max-verbmem 0.1, ...)
    success     the best utility of what meets the thresholds; the paper's are verbmem below
                0.1, utility and truth ratio at least 70% of No-unlearn
    """
    from analysis.frontier.pick import CONSTRAINT
    from analysis.page.choice import choose
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable
    from analysis.words import model_name

    limits, problems = _limits(given, constraint)
    rule = rule or (CONSTRAINT if limits or constraint else None)
    out = Path(folder)
    problems += _problems(out, rule, copy_to, limited=bool(limits or constraint))
    refuse([*options.given_problems(), *problems])
    sweep = SweepFile.read(out)
    table = TrialTable.read(out, sweep=sweep.name)
    found, judgement = choose(table, sweep, rule=rule, limits=limits)
    checkpoint = out / str(found.row["checkpoint"]) if found.row["checkpoint"] else None
    there = checkpoint is not None and checkpoint.is_dir()
    name = model_name(found.row, with_epoch=table.every_epoch)
    missing = f"the checkpoint of {name} is not there: {checkpoint or 'none was saved'}"
    if copy_to is not None:
        if checkpoint is None or not there:
            raise Problems([missing])
        shutil.copytree(checkpoint, copy_to)
        checkpoint = Path(copy_to)
    if as_json:
        where = str(checkpoint) if there else None
        click.echo(_as_json(found, judgement, table, rule=rule or "answer", checkpoint=where))
        if not there:
            click.echo(missing, err=True)
        return
    click.echo("\n".join(_in_words(found, judgement, table, sweep)))
    gone = "" if there or checkpoint is None else " (not there any more)"
    click.echo(f"checkpoint: {checkpoint or 'none was saved'}{gone}")


def _limits(given: Mapping[str, Any], constraints: Sequence[str]) -> tuple[list[Constraint], list[str]]:
    """The limits asked for, and what is wrong with them."""
    limits = [
        Constraint(name, ">=" if side == "min" else "<=", given[f"{side}_{name}"])
        for name in _LIMITED
        for side in ("max", "min")
        if given[f"{side}_{name}"] is not None
    ]
    problems = []
    for limit in limits:
        if not math.isfinite(limit.bound):
            flag = f"--{'min' if limit.sign == '>=' else 'max'}-{limit.name.replace('_', '-')}"
            problems.append(f"{flag} must be a finite number, got {limit.bound:g}")
    return limits + _constraints(constraints, problems), problems


def _problems(out: Path, rule: str | None, copy_to: str | None, *, limited: bool) -> list[str]:
    from analysis.frontier.pick import CONSTRAINT, RULES

    problems = []
    if rule is not None and rule not in RULES:
        problems.append(f"unknown rule '{rule}': {expected_one_of(rule, RULES)}")
    elif rule == CONSTRAINT and not limited:
        problems.append("the rule constraint needs a limit, such as --max-verbmem 0.1")
    if not (out / "sweep.json").is_file():
        problems.append(f"{out} holds no sweep: there is no sweep.json in it")
    if copy_to is not None and Path(copy_to).exists():
        problems.append(f"--copy-to {copy_to}: this exists already; name a new folder")
    return problems


def _as_json(found: Pick, judgement: ChoiceJudged, table: TrialTable, *, rule: str, checkpoint: str | None) -> str:
    from analysis.frontier.pareto_json import plain, whole

    row = found.row
    content = {
        "trial_id": row["trial_id"],
        "epoch": whole(row["epoch"]),
        "spec_hash": row["spec_hash"],
        "rule": rule,
        "reason": found.reason,
        "judgement": asdict(judgement),
        "settings": {name: row[name] for name in table.spec_columns},
        "metrics": _measured(row, table),
        "checkpoint": checkpoint,
        "eligible": found.eligible,
    }
    return json.dumps(plain(content))


def _in_words(found: Pick, judgement: ChoiceJudged, table: TrialTable, sweep: SweepFile) -> Iterator[str]:
    from analysis.words import model_name, number, settings_in_words

    name = model_name(found.row, with_epoch=table.every_epoch)
    yield f"{name}: {settings_in_words(found.row, table.varying)}"
    yield f"why: {found.reason}"
    for line in judgement.lines:
        yield f"judgement: {line}"
    metrics = _measured(found.row, table)
    width = max(map(len, metrics), default=0)
    for column, value in metrics.items():
        unlearned = f"   (No-unlearn {number(sweep.baseline[column])})" if column in sweep.baseline else ""
        yield f"  {column:<{width}}  {number(value)}{unlearned}"


def _measured(row: pd.Series, table: TrialTable) -> dict[str, float]:
    """What was measured of a model, and its cost, but for times."""
    return {
        column: float(row[column])
        for column in map(str, row.index)
        if table.columns[column].role in ("progress", "loss", "metric", "cost") and not column.endswith("_seconds")
        if column not in ("epoch", "step") and not isinstance(row[column], str) and row[column] == row[column]
    }


def _constraints(given: Sequence[str], problems: list[str]) -> list[Constraint]:
    """The thresholds; what cannot be read becomes a problem."""
    from sweeper.commands.search_options import known_constraint

    found = []
    for text in given:
        try:
            found.append(known_constraint(text))
        except ConstraintError as error:
            problems.append(str(error))
    return found
