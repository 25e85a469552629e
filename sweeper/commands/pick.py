"""``pick``: which checkpoint of a sweep to take, and why."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from search_spaces.constraint import Constraint, ConstraintError, parse_constraint
from search_spaces.messages import expected_one_of
from sweeper.commands import options
from sweeper.commands.errors import Problems, plain_errors, refuse

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
    found = chosen(folder, rule=rule, constraint=constraint, copy_to=copy_to, given=given)
    if as_json:
        click.echo(json.dumps(found.content))
        if not found.there:
            click.echo(found.missing, err=True)
        return
    click.echo("\n".join(found.lines))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice for machines (``content``) and for people (``lines``), and whether its checkpoint is ``there``."""

    content: dict[str, Any]
    lines: tuple[str, ...]
    there: bool
    missing: str


def chosen(
    folder: str, *, rule: str | None, constraint: Sequence[str], copy_to: str | None, given: Mapping[str, Any]
) -> Chosen:
    """What ``pick`` answers; ``given`` has the limits by their options' names.

    Raises:
        Problems, AnalysisError: with plain sentences.
    """
    from analysis.frontier.pareto_json import plain, whole
    from analysis.page.choice import choose
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable
    from analysis.words import model_name, number, settings_in_words

    out = Path(folder)
    rule, limits = _checked(out, rule=rule, constraint=constraint, copy_to=copy_to, given=given)
    sweep = SweepFile.read(out)
    table = TrialTable.read(out, sweep=sweep.name)
    found, judgement = choose(table, sweep, rule=rule, limits=limits)
    row = found.row
    name = model_name(row, with_epoch=table.every_epoch)
    checkpoint = out / str(row["checkpoint"]) if row["checkpoint"] else None
    there = checkpoint is not None and checkpoint.is_dir()
    missing = f"the checkpoint of {name} is not there: {checkpoint or 'none was saved'}"
    if copy_to is not None:
        if checkpoint is None or not there:
            raise Problems([missing])
        shutil.copytree(checkpoint, copy_to)
        checkpoint = Path(copy_to)
    metrics = {
        column: float(row[column])
        for column in map(str, row.index)
        if table.columns[column].role in ("progress", "loss", "metric", "cost") and not column.endswith("_seconds")
        if column not in ("epoch", "step") and not isinstance(row[column], str) and row[column] == row[column]
    }
    content = {
        "trial_id": row["trial_id"],
        "epoch": whole(row["epoch"]),
        "spec_hash": row["spec_hash"],
        "rule": rule or "answer",
        "reason": found.reason,
        "judgement": asdict(judgement),
        "settings": {name: row[name] for name in table.spec_columns},
        "metrics": metrics,
        "checkpoint": str(checkpoint) if there else None,
        "eligible": found.eligible,
    }
    lines = [f"{name}: {settings_in_words(row, table.varying)}", f"why: {found.reason}"]
    lines += [f"judgement: {line}" for line in judgement.lines]
    width = max(map(len, metrics), default=0)
    for column, value in metrics.items():
        unlearned = f"   (No-unlearn {number(sweep.baseline[column])})" if column in sweep.baseline else ""
        lines.append(f"  {column:<{width}}  {number(value)}{unlearned}")
    gone = "" if there or checkpoint is None else " (not there any more)"
    lines.append(f"checkpoint: {checkpoint or 'none was saved'}{gone}")
    plain_content: Any = plain(content)
    return Chosen(plain_content, tuple(lines), there, missing)


def _checked(
    out: Path, *, rule: str | None, constraint: Sequence[str], copy_to: str | None, given: Mapping[str, Any]
) -> tuple[str | None, list[Constraint]]:
    """The rule and the limits."""
    from analysis.frontier.pick import CONSTRAINT, RULES

    limits = [
        Constraint(name, ">=" if side == "min" else "<=", given[f"{side}_{name}"])
        for name in _LIMITED
        for side in ("max", "min")
        if given[f"{side}_{name}"] is not None
    ]
    rule = rule or (CONSTRAINT if limits or constraint else None)
    problems = options.given_problems()
    for limit in limits:
        if not math.isfinite(limit.bound):
            flag = f"--{'min' if limit.sign == '>=' else 'max'}-{limit.name.replace('_', '-')}"
            problems.append(f"{flag} must be a finite number, got {limit.bound:g}")
    limits += _constraints(constraint, problems)
    if rule is not None and rule not in RULES:
        problems.append(f"unknown rule '{rule}': {expected_one_of(rule, RULES)}")
    elif rule == CONSTRAINT and not (limits or constraint):
        problems.append("the rule constraint needs a limit, such as --max-verbmem 0.1")
    if not (out / "sweep.json").is_file():
        problems.append(f"{out} holds no sweep: there is no sweep.json in it")
    if copy_to is not None and Path(copy_to).exists():
        problems.append(f"--copy-to {copy_to}: this exists already; name a new folder")
    refuse(problems)
    return rule, limits


def _constraints(given: Sequence[str], problems: list[str]) -> list[Constraint]:
    """The thresholds; what cannot be read becomes a problem."""
    from trainables.metrics.registry import METRICS

    found = []
    for text in given:
        try:
            constraint = parse_constraint(text)
        except ConstraintError as error:
            problems.append(str(error))
            continue
        if constraint.name in METRICS:
            found.append(constraint)
        else:
            problems.append(
                f"constraint {text}: unknown metric '{constraint.name}': {expected_one_of(constraint.name, METRICS)}"
            )
    return found
