"""Read the options of ``pick``: a rule, limits and a column, and the problems with them."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.frontier.pick import BUDGET, CONSTRAINT, KNEE, Best
from search_spaces.constraint import Constraint, ConstraintError, parse_constraint
from sweeper.settings.objectives import parse_metric_constraint
from sweeper.settings.options import PickOptions
from sweeper.settings.reading import Problem

BUDGET_LIMIT = Constraint("retain_kl", "<=", 0.01)
"""The limit of the rule ``budget`` if none is given: the divergence from the target, as in RepSelect's protocol."""


def _parse_limit(text: str) -> Constraint:
    return parse_constraint(text, flag="--where", noun="numeric column")


@dataclass(frozen=True, slots=True)
class PickRequest:
    """The requested rule, the limits on metrics, the column to optimise, and the problems with them.

    If the user gave none of these, they are None, () and None, and the model that the report recommends is chosen.
    """

    rule: str | None
    limits: tuple[Constraint, ...]
    best: Best | None
    problems: list[Problem]

    @classmethod
    def of(cls, options: PickOptions) -> PickRequest:
        limits: list[Constraint] = []
        problems: list[Problem] = []
        for texts, parse in ((options.constraint, parse_metric_constraint), (options.where, _parse_limit)):
            for text in texts:
                try:
                    limits.append(parse(text))
                except ConstraintError as error:
                    problems.append(Problem(str(error)))
        best = [Best(column, "max") for column in options.maximize]
        best += [Best(column, "min") for column in options.minimize]
        rule = options.rule or (CONSTRAINT if limits else None)
        if rule == BUDGET and not limits:
            limits = [BUDGET_LIMIT]
        if rule == CONSTRAINT and not limits:
            problems.append(Problem("the rule 'constraint' needs a limit, such as --where 'verbmem<=0.1'", "rule"))
        elif rule in (KNEE, BUDGET) and best:
            text = f"--rule {rule} and --{best[0].direction}imize both choose a model; give only one of them"
            problems.append(Problem(text, "rule"))
        selecting = {"--rule": options.rule, "--where": options.where, "--maximize": options.maximize}
        selecting["--minimize"] = options.minimize
        given = [flag for flag, value in selecting.items() if value]
        if options.robust and (given or limits or options.trial is not None):
            text = "--robust chooses by the criterion under attack, so it cannot be used with a rule, a limit, a column"
            problems.append(Problem(f"{text} or --trial", "robust"))
        if options.trial is not None and given:
            text = f"--trial names the model, so it cannot be used with {', '.join(given)}"
            problems.append(Problem(text, "trial"))
        if options.epoch is not None and options.trial is None:
            problems.append(Problem("--epoch needs --trial ID, the trial of the epoch", "epoch"))
        if len(best) > 1:
            flags = ", ".join(f"--{column.words}" for column in best)
            text = f"only one column can be optimised, got {flags}. Limit the other columns with --where"
            problems.append(Problem(text))
        return cls(rule, tuple(limits), best[0] if best else None, problems)
