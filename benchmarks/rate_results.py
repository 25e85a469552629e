"""The results of the experiment on learning-rate rules, computed from its rows by the code of ``lr-study``."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from study_rows import Row, print_table

from analysis.study.endpoints import RunFacts
from analysis.study.lr_study import LrStudy, study_of
from analysis.study.paired import mean_interval
from analysis.tables.columns import Columns
from analysis.tables.sources import Sources, shared
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, typed_trials
from search_spaces.common.messages import some_of
from trainables.spec import TrialSpec

KEY = ("problem", "seed", "method", "arm", "rate")
SCORES = ("utility", "verbmem", "truth_ratio", "retain_accuracy", "forget_accuracy")
SIDES: dict[tuple[str, str], tuple[str, ...]] = {
    ("utility", "verbmem"): (),  # the paper's thresholds
    ("retain_accuracy", "forget_accuracy"): ("forget_accuracy<0.1", "retain_accuracy>=70%"),
}
"""The pairs of scores for keeping and forgetting, with the thresholds that the study must state for a pair."""
TIE = 0.02
"""Arms count as equally good if their scores differ by at most this difference."""

LARGE = 1e-3
"""The best fixed rate of the language models. The table of starts counts the runs that end with a larger rate."""

SpecOf = Callable[[str, int, str, str, str], TrialSpec]


@dataclass(frozen=True, slots=True)
class Scored:
    """A run with its value: the quality at the thresholds, or 0 if the run collapsed."""

    row: Row
    value: float
    success: bool
    collapsed: bool

    @property
    def pair(self) -> tuple[str, str]:
        return self.row["problem"], self.row["method"]


def require_one_target(rows: Sequence[Row]) -> None:
    """Exit with an error if the runs of a problem and seed have different targets: they are no pairs."""
    targets: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows:
        targets[row["problem"], row["seed"]].add(tuple(row[f"target_{name}"] for name in SCORES))
    if mixed := [f"{problem} {seed}" for (problem, seed), found in targets.items() if len(found) > 1]:
        raise SystemExit(
            f"the runs of {some_of(mixed)} have different targets, such as those of another machine, so they cannot be "
            "compared seed by seed; use a file of rows for each machine"
        )


def study_from(rows: Sequence[Row], spec_of: SpecOf, primary: str = "") -> LrStudy:
    """Return the study of the runs on one problem. The arms must differ in the rate rule and the rate alone."""
    from sweeper.settings.objectives import parse_objectives, with_bounds
    from sweeper.store.columns import column_dictionary

    columns = Columns.from_dict(column_dictionary())
    trials, targets = [], {}
    for row in rows:
        spec = spec_of(row["problem"], int(row["seed"]), row["method"], row["arm"], row["rate"])
        counts = {"lr_updates": row["updates"], "lr_updates_accepted": row["updates_accepted"]}
        values = (
            spec.row() | counts | {name: value for name, value in row.items() if name in columns and name not in KEY}
        )
        cells = {name: "" if value is None else str(value) for name, value in values.items()}
        trials.append(cells | {"trial_id": "/".join(row[name] for name in KEY), "lr": str(float(row["rate"]))})
        targets[spec.seed] = {name: float(row[f"target_{name}"]) for name in SCORES if row[f"target_{name}"]}
    names = list(next(iter(targets.values())))
    keeping, forgetting = next(pair for pair in SIDES if pair[0] in names)
    file = SweepFile(
        name="rows",
        columns=columns,
        settings={
            "seeds_vary": "target",
            "primary": primary,
            "sampler": "grid",
            "constraints": SIDES[keeping, forgetting],
        },
        objectives=with_bounds(parse_objectives(f"{keeping}:max,{forgetting}:min"), 1.0),
        baseline={name: statistics.fmean(target[name] for target in targets.values()) for name in names},
        baselines=targets,
    )
    table = typed_trials(Path("rows"), pd.DataFrame(trials), columns, "rows")
    history = pd.DataFrame({"sweep": pd.Series(dtype=object), "trial_id": pd.Series(dtype=object), "step": []})
    return study_of([Sources(TrialTable(table, history, columns), shared({"rows": file}))])


def scored(rows: Sequence[Row], spec_of: SpecOf) -> list[Scored]:
    """Return the runs with their values, in the order of their problems and arms."""
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["problem"], row["arm"]].append(row)
    results = []
    for group in groups.values():
        row_of = {"/".join(row[name] for name in KEY): row for row in group}
        for facts in study_from(group, spec_of).runs:
            results.append(_scored(facts, row_of[str(facts.run.row["trial_id"])]))
    return results


def _scored(facts: RunFacts, row: Row) -> Scored:
    if facts.success is None or facts.collapsed is None:
        raise ValueError(f"the run {' '.join(row[name] for name in KEY)} lacks a score, so its success is unknown")
    return Scored(row, 0.0 if facts.collapsed else facts.quality, facts.success, facts.collapsed)


def score(runs: Sequence[Scored]) -> float:
    """Return the mean value over seeds and starts, then over pairs of problem and method with equal weights."""
    pairs: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        pairs[run.pair].append(run.value)
    return statistics.fmean(statistics.fmean(values) for values in pairs.values())


def by_arm(runs: Sequence[Scored]) -> Mapping[str, list[Scored]]:
    """Return the runs of each arm. Each fixed rate is an arm of its own."""
    arms: defaultdict[str, list[Scored]] = defaultdict(list)
    for run in runs:
        rule = run.row["arm"]
        arms[f"{rule} {run.row['rate']}" if rule.startswith("off") else rule].append(run)
    return arms


def select(runs: Sequence[Scored], candidates: Sequence[str], reference: str) -> str:
    """Return the candidate that the protocol's rule selects. ``candidates`` are in the order of preference.

    A candidate that collapsed in more runs than the reference is excluded, unless this excludes all candidates.
    """
    arms = by_arm(runs)
    collapses = {arm: sum(run.collapsed for run in arms[arm]) for arm in (*candidates, reference)}
    allowed = [arm for arm in candidates if collapses[arm] <= collapses[reference]] or list(candidates)
    scores = {arm: score(arms[arm]) for arm in allowed}
    return next(arm for arm in allowed if scores[arm] >= max(scores.values()) - TIE)


def print_arms(runs: Sequence[Scored]) -> None:
    """Print a row for each problem, method and arm, with the worst run as the worst run."""
    table = []
    for (pair, arm), group in itertools.groupby(
        sorted(runs, key=lambda run: (run.pair, _order(run))), key=lambda run: (run.pair, _name(run))
    ):
        of_arm = list(group)
        worst = min(of_arm, key=lambda run: (run.value, _keeps(run), -float(run.row["retain_loss"] or 0)))
        counts = [sum(run.success for run in of_arm), sum(run.collapsed for run in of_arm)]
        done, due = (sum(int(float(run.row[name] or 0)) for run in of_arm) for name in ("updates_accepted", "updates"))
        seeds = len({run.row["seed"] for run in of_arm})
        mean = statistics.fmean(run.value for run in of_arm)
        updates, cost = f"{done} of {due}" if due else "", f"{statistics.median(map(_seconds, of_arm)):.1f}"
        table.append((*pair, arm, seeds, len(of_arm), *counts, f"{mean:.2f}", _worst(worst), updates, cost))
    head = ("problem", "method", "arm", "seeds", "runs", "succeeded", "collapsed", "value")
    print_table((*head, "worst run", "updates", "median seconds"), table)


def print_starts(runs: Sequence[Scored]) -> None:
    """Print a row for each rule and start, and one for all starts of the rule, with the last rates of the runs."""
    groups: defaultdict[tuple[tuple[str, str], str, float], list[Scored]] = defaultdict(list)
    for run in runs:
        if not run.row["arm"].startswith("off"):
            for start in (float(run.row["rate"]), math.inf):  # infinity stands for all starts
                groups[run.pair, run.row["arm"], start].append(run)
    table = []
    for (pair, arm, start), of_start in sorted(groups.items()):
        counts = [sum(run.success for run in of_start), sum(run.collapsed for run in of_start)]
        mean = f"{statistics.fmean(run.value for run in of_start):.2f}"
        last = [float(run.row["last_rate"]) for run in of_start if run.row["last_rate"]]
        rates = [f"{value:.2g}" for value in (statistics.median(last), max(last))] if last else ["", ""]
        name = "all" if math.isinf(start) else f"{start:g}"
        table.append((*pair, arm, name, len(of_start), *counts, mean, *rates, sum(rate > LARGE for rate in last)))
    head = ("problem", "method", "rule", "start", "runs", "succeeded", "collapsed", "value")
    print_table((*head, "median last rate", "largest", f"runs above {LARGE:g}"), table)


def _keeps(run: Scored) -> float:
    return float(run.row["utility"] or run.row["retain_accuracy"] or 0)


def _worst(run: Scored) -> str:
    """Return the value of a run, its score of keeping, and its retain loss and last rate."""
    row = run.row
    facts = [f"{name.replace('_', ' ')} {float(row[name]):.4g}" for name in ("retain_loss", "last_rate") if row[name]]
    keeps = f"keeps {_keeps(run):.2f}"
    return f"{run.value:.2f} ({', '.join([keeps, *facts])}; seed {row['seed']}, from {row['rate']})"


def _seconds(run: Scored) -> float:
    return float(run.row["train_seconds"] or 0) + float(run.row["decision_seconds"] or 0)


def print_factors(runs: Sequence[Scored], factors: Sequence[str]) -> None:
    """Print what each factor changes: the difference to the equal runs without it, averaged on each seed."""
    plain = {tuple(run.row[name] for name in KEY): run for run in runs}
    groups: defaultdict[tuple[tuple[str, str], str], list[tuple[Scored, Scored]]] = defaultdict(list)
    for run in runs:
        arm, _, factor = run.row["arm"].rpartition("+")
        other = plain.get(tuple(arm if name == "arm" else run.row[name] for name in KEY))
        if factor in factors and other is not None:
            groups[run.pair, run.row["arm"]].append((run, other))
    table = []
    for (pair, arm), pairs in sorted(groups.items()):
        by_seed: defaultdict[str, list[float]] = defaultdict(list)
        for run, other in pairs:
            by_seed[run.row["seed"]].append(run.value - other.value)
        means = [statistics.fmean(values) for values in by_seed.values()]
        low, high = mean_interval(means)
        change = f"{statistics.fmean(means):+.3f} [{low:.3f}, {high:.3f}]"
        success, collapse = (f"{sum(getattr(run, name) for run, _ in pairs)} against "
                             f"{sum(getattr(other, name) for _, other in pairs)} of {len(pairs)}"
                             for name in ("success", "collapsed"))  # fmt: skip
        table.append((*pair, arm, len(means), change, success, collapse))
    print_table(("problem", "method", "arm", "seeds", "change in value", "succeeded", "collapsed"), table)


def _name(run: Scored) -> str:
    return next(iter(by_arm([run])))


def _order(run: Scored) -> tuple[str, float, str]:
    rule = run.row["arm"]
    is_fixed = rule.startswith("off")
    return ("" if is_fixed else "rule", float(run.row["rate"]) if is_fixed else 0.0, rule)


def print_verdicts(rows: Sequence[Row], spec_of: SpecOf, primary: str) -> None:
    """Print the verdicts of ``lr-study`` for each problem, on the arms without decay, restart and interpolation."""
    from analysis.report.study_text import verdict_headline

    plain = [row for row in rows if not {"decay", "restart", "interpolate"} & set(row["arm"].split("+"))]
    for problem in dict.fromkeys(row["problem"] for row in plain):
        study = study_from([row for row in plain if row["problem"] == problem], spec_of, primary)
        for verdict in study.verdicts:
            print(f"{problem}: {verdict_headline(verdict)}: {verdict.outcome}, p = {verdict.p:.3g}")
