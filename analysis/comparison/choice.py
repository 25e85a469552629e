"""Which configuration stands for a method: the one that most surely succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from analysis.comparison.entry import entry_of, succeeds
from analysis.comparison.table import Entry
from analysis.frontier.frontier import hypervolume
from analysis.study.bounded_mean import exact_share
from analysis.study.placed_trials import PlacedTrial, PlacedTrials
from analysis.tables.columns import Columns, short
from analysis.tables.sweep_file import SweepFile


def chosen(
    trials: Sequence[PlacedTrial], placed: PlacedTrials, metrics: Sequence[str], targets: SweepFile
) -> Entry | None:
    """The entry of the configuration that :func:`rule` picks, of equals the first; None without trials."""
    configurations: dict[tuple[object, ...], list[PlacedTrial]] = {}
    for trial in trials:
        configurations.setdefault((trial.variant, trial.lr, trial.setting), []).append(trial)
    rank = partial(_rank, columns=placed.columns, targets=targets)
    best = max(configurations.values(), key=rank, default=None)
    return None if best is None else entry_of(best, placed, metrics, targets)


def rule(columns: Columns) -> str:
    """How an entry was chosen, and what its numbers and bold mean."""
    asked: dict[str, list[str]] = {}
    for name, threshold in columns.thresholds.items():
        asked.setdefault(threshold.words(), []).append(short(name))
    said = "; ".join(f"{' and '.join(names)} {words}" for words, names in asked.items())
    return (
        "Each method is shown at one configuration (learning rate and options), without AutoLR and with it: the one "
        f"whose seeds most surely meet the paper's thresholds ({said or 'none of them applies here'}), by the lower "
        "end of the exact 95% interval of their share (Clopper & Pearson 1934: 3 of 3 seeds come before 1 of 1), of "
        "those the one whose mean objectives dominate the largest share of the box. A seed that was lost (diverged, "
        "failed or stopped) counts there as no success and as the worst corner. Choice and numbers are from the same "
        "seeds. Bold: the mean meets the metric's threshold. Means are over finished seeds, or over the seeds that a "
        "cell names; a seed succeeds that meets all thresholds. ± is the standard deviation over seeds."
    )


def _rank(members: Sequence[PlacedTrial], columns: Columns, targets: SweepFile) -> tuple[float, float, int]:
    """How surely a seed succeeds, the share of the box that the mean objectives dominate, and the finished seeds."""
    done = [trial.row for trial in members if trial.row["status"] == "finished"]
    met = sum(succeeds(row, columns, targets) is True for row in done)
    # A lost seed attains the worst corner.
    size = next((len(trial.costs) for trial in members if trial.costs is not None), 0)
    costs = [np.ones(size) if trial.costs is None else trial.costs for trial in members]
    box = hypervolume([np.mean(costs, axis=0)]) if size else 0.0
    return exact_share(met, len(members)).low, box, len(done)
