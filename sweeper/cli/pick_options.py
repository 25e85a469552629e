"""What ``pick`` is asked for: a rule, limits, a column to be best in; read from its options, all problems at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.constraint import Constraint, ConstraintError, parse_constraint
from search_spaces.messages import did_you_mean, expected_one_of, no_sweep

if TYPE_CHECKING:
    from analysis.frontier.pick import Best

LIMITED = ("verbmem", "utility", "truth_ratio", "forget_loss", "retain_loss")
"""The columns whose limits have options of their own."""


@dataclass(frozen=True, slots=True)
class Asked:
    """``rule`` is None for the report's answer; ``said`` is what was asked in a word or two."""

    rule: str | None
    limits: tuple[Constraint, ...]
    best: Best | None

    @property
    def said(self) -> str:
        """``answer``, ``knee``, ``maximize utility``."""
        return self.best.words if self.best is not None else self.rule or "answer"


def read_asked(given: Mapping[str, Any], out: Path, problems: list[str]) -> Asked:
    """What the options ask for of the sweep in ``out``; what is wrong with them is added to ``problems``."""
    from analysis.frontier.pick import CONSTRAINT, KNEE, RULES, Best

    limits = [*_own_limits(given, problems), *_constraints(given["constraint"], problems)]
    where = _where(given["where"], problems)
    wanted = [
        Best(column, direction)
        for direction, columns in (("max", given["maximize"]), ("min", given["minimize"]))
        for column in columns
    ]
    rule = given["rule"] or (CONSTRAINT if limits or where else None)
    if rule is not None and rule not in RULES:
        problems.append(f"unknown rule '{rule}': {expected_one_of(rule, RULES)}")
    elif rule == CONSTRAINT and not (limits or where):
        problems.append("the rule constraint needs a limit, such as --max-verbmem 0.1")
    elif rule == KNEE and wanted:
        problems.append(f"--rule knee and --{wanted[0].direction}imize both say which one to take: give one of them")
    if len(wanted) > 1:
        told = ", ".join(f"--{item.words}" for item in wanted)
        problems.append(f"one column can be the best, got {told}: put limits on the others with --where")
    if not (out / "sweep.json").is_file():
        problems.append(no_sweep(out))
    elif where or wanted:
        problems += _column_problems(out, where, wanted)
    return Asked(rule, (*limits, *where), wanted[0] if wanted else None)


def _own_limits(given: Mapping[str, Any], problems: list[str]) -> list[Constraint]:
    """The limits that have options of their own."""
    limits = [
        Constraint(name, ">=" if side == "min" else "<=", given[f"{side}_{name}"])
        for name in LIMITED
        for side in ("max", "min")
        if given[f"{side}_{name}"] is not None
    ]
    for limit in limits:
        if not math.isfinite(limit.bound):
            flag = f"--{'min' if limit.sign == '>=' else 'max'}-{limit.name.replace('_', '-')}"
            problems.append(f"{flag} must be a finite number, got {limit.bound:g}")
    return limits


def _constraints(given: Sequence[str], problems: list[str]) -> Iterator[Constraint]:
    """The thresholds, on metrics that there are."""
    from sweeper.cli.search_options import known_constraint

    return _read(given, known_constraint, problems)


def _where(given: Sequence[str], problems: list[str]) -> list[Constraint]:
    """The limits on any column."""
    wrong: list[str] = []
    found = list(_read(given, parse_constraint, wrong))
    problems += [problem.replace("constraint", "--where", 1).replace("a metric", "a column", 1) for problem in wrong]
    return found


def _read(given: Sequence[str], read: Callable[[str], Constraint], problems: list[str]) -> Iterator[Constraint]:
    for text in given:
        try:
            yield read(text)
        except ConstraintError as error:
            problems.append(str(error))


def _column_problems(out: Path, where: Sequence[Constraint], wanted: Sequence[Best]) -> Iterator[str]:
    """What is wrong with the columns named; where one is not there, the last line says which are."""
    from analysis.frontier.pick import numeric_columns
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable

    sweep = SweepFile.read(out)
    models = TrialTable.read(out, sweep=sweep.name).models.trials
    if models.empty:
        return  # that no trial has finished is said by who picks
    there = numeric_columns(models)
    named = [(f"--where {item}", item.name) for item in where] + [(f"--{item.words}", item.column) for item in wanted]
    unknown = [(flag, name) for flag, name in named if name not in there]
    for flag, name in unknown:
        lacks = "there is no number in the column" if name in models.columns else "there is no column"
        yield f"{flag}: {lacks} {name}{_nearest(name, there)}"
    for item in where:
        if item.relative and item.name in there and item.name not in sweep.baseline:
            yield f"--where {item}: the sweep's No-unlearn model has no {item.name}, so there is no share of it"
    if unknown:
        yield f"the columns with numbers are {', '.join(there)}"


def _nearest(name: str, there: Collection[str]) -> str:
    near = did_you_mean(name, there)
    return f"; {near}" if near else ""
