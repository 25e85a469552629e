"""A learning-rate study as a whole: lr_study.json from the tables of one or several sweeps."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.errors import AnalysisError
from analysis.frontier.pareto_json import plain
from analysis.frontier.trade_off import Objective
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.lr_grid import LrGrid, lr_grid
from analysis.study.probe_cost import with_probes
from analysis.study.sensitivity import AutoPlace, RateRow, Sensitivity, sensitivity_data
from analysis.study.verdict import Opponent, Verdict, seeds_for, verdicts_data
from analysis.study.verdict_words import words
from analysis.tables.sources import read_sweep
from analysis.tables.trial_table import TrialTable
from search_spaces.durable import write_whole


@dataclass(frozen=True, slots=True)
class LrStudy:
    """Sensitivity of every method, AutoLR's verdicts and the arms' fronts; ``notes`` say what was left out."""

    grid: LrGrid
    sensitivity: tuple[Sensitivity, ...]
    verdicts: tuple[Verdict, ...]
    fronts: tuple[ArmFronts, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The content of lr_study.json; what is not finite is null."""
        content = {
            "settings": list(self.grid.setting_columns),
            "sensitivity": [_of_sensitivity(item) for item in self.sensitivity],
            "verdicts": [_of_verdict(item, self.grid.setting_columns) for item in self.verdicts],
            "fronts": [_of_fronts(item) for item in self.fronts],
            "notes": list(self.notes),
        }
        found = plain(content)
        assert isinstance(found, dict)
        return found


def read_study(folders: Sequence[Path]) -> LrStudy:
    """The study in one or several sweep folders, their seeds, methods and models put together.

    Raises:
        AnalysisError: a folder holds no sweep or no objectives yet, or their objectives differ.
    """
    parts = []
    for index, folder in enumerate(folders):
        read = read_sweep(folder)
        if not read.sweep.objectives:
            raise AnalysisError(f"{folder} has no objectives yet: its target is still being made")
        name = f"{index + 1}: {read.sweep.name}"
        table = with_probes(read.table, read.auto_lr)
        named = replace(table, trials=table.trials.assign(sweep=name), history=table.history.assign(sweep=name))
        parts.append((named, read.sweep.objectives))
    return study_of(parts)


def study_of(parts: Sequence[tuple[TrialTable, tuple[Objective, ...]]]) -> LrStudy:
    """The study of tables that are already read, each with the objectives of its sweep.

    Raises:
        AnalysisError: their objectives differ.
    """
    grid = lr_grid(parts)
    notes = [note for table, _ in parts for note in table.notes]
    return LrStudy(grid, sensitivity_data(grid), verdicts_data(grid), arm_fronts(grid), (*notes, *grid.notes))


def write_study(path: Path, study: LrStudy) -> None:
    """Write lr_study.json whole."""
    write_whole(path, json.dumps(study.to_dict(), indent=2, allow_nan=False) + "\n")


def _of_sensitivity(item: Sensitivity) -> dict[str, object]:
    return {
        **_of_problem(item),
        "words": item.words(),
        "best_lr": item.best_lr,
        "within_5_percent": item.near_best,
        "decades": item.decades,
        "spread": item.spread,
        "rates": [_of_row(row) for row in item.rates],
        "auto_lr": [_of_place(place) for place in item.auto],
    }


def _of_place(place: AutoPlace) -> dict[str, object]:
    return {
        "variant": place.variant,
        "mean": place.mean,
        "worst": place.worst,
        "best": place.best,
        "beats": place.beats,
        "share_of_best": place.share_of_best,
        "starts": [_of_row(row) for row in place.starts],
    }


def _of_row(row: RateRow) -> dict[str, object]:
    return {
        "lr": row.lr,
        "hypervolume": row.hypervolume,
        "deviation": row.deviation,
        "seeds": row.seeds,
        "diverged": row.diverged,
        "metrics": row.metrics,
    }


def _of_verdict(item: Verdict, columns: Sequence[str]) -> dict[str, object]:
    return {
        **_of_problem(item),
        "variant": item.variant,
        "words": list(words(item)),
        "starts": item.starts,
        "rates": item.rates,
        "tuning_seeds": item.tuning,
        "fresh_seeds": item.fresh,
        "seeds_left_out": item.left_out,
        "charge": item.charge,
        "charge_measured": item.charge_measured,
        "opponents": [_of_opponent(opponent, columns) for opponent in item.opponents],
        "tuning_curve": {
            "picks": item.curve.picks.tolist(),
            "expected": item.curve.expected.tolist(),
            "auto": item.curve.auto,
            "equals_best_of": item.curve.equals,
            "above_all_rates": math.isinf(item.curve.equals),
            "beats_at_cost": item.curve.beats_at_cost,
        },
    }


def _of_opponent(item: Opponent, columns: Sequence[str]) -> dict[str, object]:
    return {
        "name": item.name,
        "choice": [{**dict(zip(columns, setting, strict=True)), "lr": rate} for setting, rate in item.choice.items()],
        "runs": item.runs,
        "hand": item.hand,
        "auto": item.auto,
        "difference": item.result.mean,
        "interval": None if item.result.low is None else [item.result.low, item.result.high],
        "p": item.result.p,
        "p_holm": item.p_holm,
        "outcome": item.outcome,
        "comparisons": item.comparisons,
        "fresh_seeds_needed": item.fresh_needed,
        "seeds_needed": seeds_for(item.fresh_needed),
    }


def _of_problem(item: Sensitivity | Verdict) -> dict[str, object]:
    return {"model": item.problem.model, "dataset": item.problem.dataset, "method": item.problem.method}


def _of_fronts(item: ArmFronts) -> dict[str, object]:
    places = item.sensitivity
    return {
        "model": item.model,
        "dataset": item.dataset,
        "references": places.references,
        "order_stable": places.stable,
        "arms": [
            {
                "name": name,
                "trials": item.trials[name],
                "hypervolume": found.hypervolume,
                "igd_plus": found.igd_plus,
                "epsilon": found.epsilon,
                "hypervolume_by_reference": row.tolist(),
            }
            for (name, found), row in zip(item.indicators.items(), places.hypervolumes, strict=True)
        ],
    }
