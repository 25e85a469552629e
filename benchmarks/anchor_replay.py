"""Do NePS or OptunaHub's Pareto-rank pruner find a better frontier than the default search, with the same epochs?

    pip install neural-pipeline-search==0.17.0 optunahub==0.5.0     # in an environment of its own
    git clone https://github.com/optuna/optunahub-registry REGISTRY
    python benchmarks/anchor_replay.py --rows FILE.csv --registry REGISTRY     # runs the missing searches
    python benchmarks/anchor_replay.py --rows FILE.csv --table                 # needs neither package

The searches are replayed on recorded runs, as in benchmarks/search_replay.py. These measures were chosen before the
runs:

- Primary: the hypervolume of the frontier after 10% of the table's epochs, as a share of the hypervolume of all epochs
  in the table. Secondary: the same after 5% and 20%, and the number of searches that have found the frontier.
- Each arm is compared with the default search with the same seed on the same table. The result is the mean of the
  paired differences with the 95% interval of the paired t test. The p-values are adjusted by Holm's method over the
  arms of a problem. An arm is better or worse than the default if the adjusted p is below 0.05. Otherwise, both are
  tied. To become an option of ``pareto``, an arm must be better on both problems.

By default, the tables have seed 5 or 6 (``authors``: odd and even searches) and 5 (``tofu``). These tables were not
used to choose the defaults, but the tables that were used have the same problems, methods and model. Therefore, the
comparison favours the default. The seeds of the searches begin at :data:`FIRST_SEED`, and no earlier replay used them.

The epochs of all trials are candidates in every arm. NePS has no conditional parameters, so it proposes c for every
method, and c has an effect only with gdiff. NePS learns the costs of the last epoch of a rung. A promoted trial
continues after its last epoch, so every epoch is counted once. A diverged trial has the worst costs.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna
import torch
from replay import EPSILON, HYPERVOLUME, Arm, ReplayResult, Table, progress, read_tables, replay
from scipy.stats import ttest_1samp
from statsmodels.stats.multitest import multipletests
from study_rows import Row as CsvRow
from study_rows import print_table, read_rows, run_missing, study_parser

from analysis.study.paired import ALPHA, mean_interval
from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.search import schedulers
from sweeper.search.archive import Row
from sweeper.search.halving import Decision
from sweeper.store.state import Trial
from trainables.methods import parse_method
from trainables.models.registry import MODELS

SHARES = (0.05, 0.1, 0.2)
"""The shares of the table's epochs after which a search is measured."""
PRIMARY = 0.1
FIRST_SEED = 1000
KEY = ("problem", "table_seed", "arm", "seed")
COLUMNS = (*KEY, "share", "epochs", "hypervolume", "epsilon", "trials", "spent")
DEFAULT = "tpe + moasha (default)"
PRUNER = "tpe + multi_metric_pruner"
PROJECT_ARMS = {
    DEFAULT: Arm(scheduler="moasha", trials=64),
    "random + moasha": Arm(sampler="random", scheduler="moasha", trials=64),
    PRUNER: Arm(scheduler="multi_metric_pruner", trials=64),
}
_PRIOR = {
    "method": "gdiff",
    "c": 1.0 - parse_method("gdiff").resolve({})["c"],
    "lr": MODELS["tiny-phi"].lr,
}
"""The configuration of ``unlearn`` without options, in the parameters of :func:`neps_space`. Nobody tuned this prior on
the tables."""
_OBJECTIVES = ("forget_loss", "retain_loss")
NEPS_ARMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "NePS moasha": ("moasha", {}),
    "NePS moasha, eta 2": ("moasha", {"eta": 2}),
    "NePS mo_hyperband": ("mo_hyperband", {}),
    "NePS primo": (
        "primo",
        {
            "prior_centers": dict.fromkeys(_OBJECTIVES, _PRIOR),
            "prior_confidences": dict.fromkeys(_OBJECTIVES, dict.fromkeys(_PRIOR, 0.25)),
        },
    ),
}
"""The function of ``neps.algorithms`` and its options.

PriMO needs a prior for each objective. A user of a new problem knows only the default configuration, so it is the prior
of both objectives, with 0.25, the default confidence of NePS.
"""
ARMS = (*PROJECT_ARMS, *NEPS_ARMS)
_FIDELITY = "epoch"


class ParetoRankPruner:
    """Stops trials with OptunaHub's ``MultiMetricPruner`` and the base pruner of its documented example.

    The wrapped pruner gets the same costs as the project's scheduler. All compared trials have ended, because a replay
    has one worker.

    Args:
        module: the package ``pruners/multi_metric_pruner``.
    """

    def __init__(self, objectives: Sequence[Objective], *, module: Any, **_: object) -> None:
        self._objectives = objectives
        names = dict.fromkeys((item.column for item in objectives), "minimize")
        base = optuna.pruners.MedianPruner(n_startup_trials=3)
        self._pruner = module.MultiMetricPruner(base, metric_directions=names, joint=True)

    def decide(self, trial: Trial, compared: Collection[Trial]) -> Decision:
        frozen = [self._frozen(number, item) for number, item in enumerate(compared)]
        current = next(number for number, item in enumerate(compared) if item is trial)
        return "stop" if self._pruner.prune(_Trials(frozen), frozen[current]) else "continue"

    def next_promoted(self, waiting: Collection[Trial], compared: Collection[Trial]) -> None:
        """Return None, because no trial waits."""

    def _frozen(self, number: int, trial: Trial) -> optuna.trial.FrozenTrial:
        reported = {}
        for report in trial.reports:
            losses = report.values
            costs = {
                item.column: float(item.unclipped_cost(as_float(losses.get(item.column)))) for item in self._objectives
            }
            if all(map(math.isfinite, costs.values())):
                reported[str(round(report.epoch))] = costs
        frozen = optuna.trial.create_trial(values=[0.0] * len(self._objectives))
        frozen.number = number
        frozen.user_attrs = {"multi_pruner:values": reported}
        return frozen


class _Trials:
    """The part of an Optuna study that the pruner reads."""

    def __init__(self, trials: list[optuna.trial.FrozenTrial]) -> None:
        self._trials = trials

    def get_trials(self, *, deepcopy: bool) -> list[optuna.trial.FrozenTrial]:
        return self._trials


def replay_neps(table: Table, arm: str, *, seed: int, epoch_budget: int) -> ReplayResult:
    """Replay one search of the table with NePS until its epochs or the table's runs are used up.

    Each new configuration is replaced by the nearest unused run, as in :func:`replay.replay`.
    """
    import neps
    from neps import algorithms

    for set_seed in (random.seed, np.random.seed, torch.manual_seed):
        cast(Callable[[int], object], set_seed)(seed)
    name, options = NEPS_ARMS[arm]
    search = neps.AskAndTell(getattr(algorithms, name)(neps_space(table), **options))
    unused_runs, indices, order = set(range(len(table.runs))), dict[str, int](), list[str]()
    done: defaultdict[int, int] = defaultdict(int)
    candidates = list[tuple[int, Row]]()
    spent = 0
    while spent < epoch_budget:
        trial = search.ask()
        # The ids are N_rung_R or, after PriMO's initial design, N: a number that an unfinished trial of it may have.
        previous = trial.metadata.previous_trial_id
        if previous is not None:
            index = indices[previous]
        elif unused_runs:
            index = table.nearest(config_of(table.space, trial.config), unused_runs)
            unused_runs.remove(index)
            order.append(table.runs[index].trial_id)
        else:
            break
        indices[trial.id] = index
        run, last = table.runs[index], int(trial.config[_FIDELITY])
        for row in run.epochs[done[index] : last]:
            if spent < epoch_budget:
                spent += 1
                candidates.append((spent, row))
        done[index] = max(done[index], last)
        costs = table.costs(run.epochs[last - 1]) if last <= len(run.epochs) else None
        search.tell(trial, {"objective_to_minimize": [1.0, 1.0] if costs is None else [*map(float, costs)]})
    return ReplayResult(candidates=tuple(candidates), spent=spent, stopped=0, order=tuple(order))


def neps_space(table: Table) -> Any:
    """Return the search space of the table for NePS, with the epochs as the fidelity. The parameter c becomes 1 - c."""
    from neps.space import HPOCategorical, HPOFloat, HPOInteger, SearchSpace

    elements: dict[str, Any] = {_FIDELITY: HPOInteger(1, max(len(run.epochs) for run in table.runs), is_fidelity=True)}
    for item in table.space.parameters:
        if isinstance(item, Choice):
            elements[item.name] = HPOCategorical(list(item.values))
        elif isinstance(item, Number) and item.log_to_one:
            elements[item.name] = HPOFloat(1.0 - item.high, 1.0 - item.low, log=True)
        elif isinstance(item, Number):
            elements[item.name] = HPOFloat(item.low, item.high, log=item.log)
    return SearchSpace(elements)


def config_of(space: Space, proposal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table's configuration for a proposal of NePS. Only methods that have c keep c."""
    config = {}
    for item in space.parameters:
        conditions = getattr(item, "when", None) or {}
        if all(proposal[name] in values for name, values in conditions.items()):
            value = proposal[item.name]
            config[item.name] = 1.0 - value if isinstance(item, Number) and item.log_to_one else value
    return config


def rows_of(table: Table, arm: str, *, seed: int) -> Iterator[dict[str, object]]:
    """Run one search and yield a row for each share of the table's epochs."""
    epochs = round(max(SHARES) * table.all_epochs)
    if arm in NEPS_ARMS:
        result = replay_neps(table, arm, seed=seed, epoch_budget=epochs)
    else:
        result = replay(table, replace(PROJECT_ARMS[arm], epoch_budget=epochs), seed=seed)
    curve = progress(result, table, epochs=epochs)
    for share in SHARES:
        count = round(share * table.all_epochs)
        measured = {"hypervolume": f"{curve.share[count]:.5f}", "epsilon": f"{curve.epsilon[count]:.5f}"}
        yield {"share": share, "epochs": count, **measured, "trials": len(result.order), "spent": result.spent}


def print_results(rows: Sequence[CsvRow], *, share: float) -> None:
    """For each problem, print the arms with their paired differences from the default at this share of the epochs."""
    searches: defaultdict[str, defaultdict[str, dict[tuple[str, str], CsvRow]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if float(row["share"]) == share:
            searches[row["problem"]][row["arm"]][row["table_seed"], row["seed"]] = row
    head = ("arm", "searches", "median (worst) hypervolume", "found", "arm - default, mean [95%]", "Holm's p", "result")
    for problem, by_arm in searches.items():
        differences = {
            arm: [
                volume(row) - volume(by_arm[DEFAULT][key]) for key, row in by_arm[arm].items() if key in by_arm[DEFAULT]
            ]
            for arm in ARMS
            if arm != DEFAULT and arm in by_arm
        }
        # Without any spread, the t test has no p-value: the arms are equal.
        raw = [np.nan_to_num(ttest_1samp(values, 0.0).pvalue, nan=1.0) for values in differences.values()]
        adjusted = dict(zip(differences, multipletests(raw, method="holm")[1], strict=True)) if raw else {}
        table_rows = []
        for arm in (name for name in ARMS if name in by_arm):
            group = list(by_arm[arm].values())
            volumes = [volume(row) for row in group]
            found = sum(volume(row) >= HYPERVOLUME and float(row["epsilon"]) <= EPSILON for row in group)
            cells = [
                arm,
                len(group),
                f"{statistics.median(volumes):.3f} ({min(volumes):.3f})",
                f"{found / len(group):.0%}",
            ]
            if arm in differences:
                mean, (low, high) = statistics.fmean(differences[arm]), mean_interval(differences[arm])
                verdict = "tie" if not adjusted[arm] < ALPHA else "better" if mean > 0 else "worse"
                cells += [f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]", f"{adjusted[arm]:.2g}", verdict]
            table_rows.append([*cells, *[""] * (len(head) - len(cells))])
        print(f"\n{problem}, after {share:.0%} of the epochs\n")
        print_table(head, table_rows)


def volume(row: CsvRow) -> float:
    return float(row["hypervolume"])


@cache
def tables(path: Path) -> dict[int, Table]:
    """Return the tables of a problem by seed."""
    return {table.seed: table for table in read_tables(path)}


def add_pruner(registry: Path) -> None:
    """Register OptunaHub's pruner as a scheduler of the replay. ``registry`` is a checkout of optunahub-registry."""
    import optunahub

    module = optunahub.load_local_module("pruners/multi_metric_pruner", registry_root=str(registry / "package"))
    cast(dict[str, Any], schedulers.SCHEDULERS)["multi_metric_pruner"] = partial(ParetoRankPruner, module=module)


def main() -> None:
    parser = study_parser(__doc__, Path("runs/anchor_replay.csv"))
    parser.add_argument("--data", type=Path, default=Path("docs/data"))
    parser.add_argument("--registry", type=Path, help=f"A checkout of optunahub-registry, for the arm {PRUNER!r}.")
    parser.add_argument("--arm", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--share", type=float, nargs="+", default=[PRIMARY], choices=SHARES)
    args = parser.parse_args()
    if args.table:
        for share in args.share:
            print_results(read_rows(args.rows), share=share)
        return
    if PRUNER in args.arm:
        if args.registry is None:
            parser.error(f"the arm {PRUNER!r} needs --registry; or choose other arms with --arm")
        add_pruner(args.registry)
    warnings.filterwarnings("ignore")
    jobs = [
        (problem, table_seed, arm, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + args.seeds)
        for (problem, table_seed), arm in itertools.product([("authors", 5 + (seed + 1) % 2), ("tofu", 5)], args.arm)
    ]
    run_missing(
        args.rows,
        (KEY, COLUMNS),
        jobs,
        lambda problem, key, arm, seed: rows_of(tables(args.data / f"tabulated_{problem}.csv.xz")[key], arm, seed=seed),
    )


if __name__ == "__main__":
    main()
