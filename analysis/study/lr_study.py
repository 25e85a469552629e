"""A learning-rate study as a whole: lr_study.json from the tables of one or several sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from analysis.errors import AnalysisError
from analysis.frontier.pareto_json import plain
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.fronts_csv import fronts_csv
from analysis.study.judging import described, verdicts_data
from analysis.study.lr_grid import LrGrid, lr_grid
from analysis.study.no_verdict import NoVerdict, no_verdicts
from analysis.study.primary import Primary, shared_primary
from analysis.study.probe_cost import with_probes, with_step_passes
from analysis.study.ruin import with_ruin
from analysis.study.sensitivity import Sensitivity, rate_sensitivity
from analysis.study.verdict import DESCRIBED, Opponent, Verdict, seeds_for
from analysis.study.verdict_words import words
from analysis.tables.sources import Sources, read_source
from analysis.tables.trade_off import Objective
from search_spaces.durable import write_json, write_whole


@dataclass(frozen=True, slots=True)
class LrStudy:
    """Sensitivity of every method, AutoLR's verdicts and the arms' fronts; ``notes`` say what was left out.

    Attributes:
        without: the methods and variants of AutoLR that have no verdict.
        primary: the question that was named before there were results.
        afterwards: by which objectives it is judged where these were chosen when the results were there.
    """

    grid: LrGrid
    sensitivity: tuple[Sensitivity, ...]
    verdicts: tuple[Verdict, ...]
    fronts: tuple[ArmFronts, ...]
    notes: tuple[str, ...]
    without: tuple[NoVerdict, ...] = ()
    primary: Primary | None = None
    afterwards: str = ""

    @property
    def compared(self) -> tuple[Sensitivity, ...]:
        """Methods with several rates, one of which has a whole front: with a single rate nothing can be compared."""
        return tuple(item for item in self.sensitivity if len(item.rates) > 1 and any(row.seeds for row in item.rates))

    def subject(self, verdict: Verdict) -> str:
        """Whose verdict it is: the method and AutoLR's variant; where there are several also model and data set."""
        several = len({case.place for case in self.grid.cases}) > 1
        return f"{verdict.case if several else verdict.case.method}, AutoLR {verdict.variant}"

    def to_dict(self) -> dict[str, object]:
        """The content of lr_study.json; what is not finite is null."""
        content = {
            "settings": list(self.grid.setting_columns),
            "sensitivity": [_of_sensitivity(item) for item in self.sensitivity],
            "verdicts": [_of_verdict(item, self.grid.setting_columns) for item in self.verdicts],
            "without_verdict": [
                asdict(item.case) | {"auto_lr": item.variant, "why": item.why} for item in self.without
            ],
            "primary": str(self.primary) if self.primary else None,
            "fronts": [_of_fronts(item) for item in self.fronts],
            "notes": list(self.notes),
            "afterwards": self.afterwards,
        }
        return cast("dict[str, object]", plain(content))


def read_study(folders: Sequence[Path], objectives: Sequence[Objective] = ()) -> LrStudy:
    """The study in one or several sweep folders, their seeds, methods and models put together.

    ``objectives`` are judged by in place of those that the sweeps had.

    Raises:
        AnalysisError: a folder holds no sweep or no objectives yet, or their objectives differ.
    """
    parts = [read_source(folder, sweep=f"{index + 1}: {folder}") for index, folder in enumerate(folders)]
    for folder, part in zip(folders, parts, strict=True):
        if not part.sweep.objectives:
            raise AnalysisError(f"{folder} has no objectives yet: its target is still being made")
    searched = {_directed(part.sweep.objectives) for part in parts}
    if not objectives or searched == {_directed(objectives)}:
        return study_of(parts)
    study = study_of([replace(part, sweep=replace(part.sweep, objectives=tuple(objectives))) for part in parts])
    return replace(
        study,
        verdicts=tuple(map(described, study.verdicts)),
        afterwards=f"Judged by {_directed(objectives)}, chosen when the results were there; the trials were run for "
        f"{' and '.join(sorted(searched))}. What is chosen afterwards describes; it tests nothing.",
    )


def _directed(objectives: Sequence[Objective]) -> str:
    return ", ".join(f"{item.name} ({item.direction})" for item in objectives)


def study_in(sources: Sources) -> LrStudy | None:
    """The study in a report, where every sweep tried a grid of learning rates; None elsewhere, and of a single rate.

    A search draws a new learning rate for every trial, so that no rate has a front of its own. Rows from elsewhere,
    which need no seed and no learning rate, are no part of it.
    """
    grids = all(sweep.settings.get("sampler") == "grid" for sweep in sources.sweeps)
    if not sources.sweeps or not grids or not sources.sweep.objectives:
        return None
    study = study_of([replace(part, table=replace(part.table, notes=())) for part in sources.each_sweep])
    return study if study.verdicts or study.compared else None


def study_of(parts: Sequence[Sources]) -> LrStudy:
    """The study of tables that are already read, each with the objectives of its sweep.

    Raises:
        AnalysisError: their objectives differ.
    """
    varied = {file.seeds_vary for part in parts for file in part.sweeps} or {"order"}
    grid = lr_grid(
        [(with_step_passes(with_probes(with_ruin(part), part.auto_lr)), part.sweep.objectives) for part in parts],
        seeds_vary=varied.pop() if len(varied) == 1 else "",
    )
    primary, said = shared_primary([str(file.settings.get("primary") or "") for part in parts for file in part.sweeps])
    notes = [*(note for part in parts for note in part.table.notes), *grid.notes, *said]
    verdicts = verdicts_data(grid, primary)
    without = no_verdicts(grid, {(item.case, item.variant) for item in verdicts})
    return LrStudy(grid, rate_sensitivity(grid), verdicts, arm_fronts(grid), tuple(notes), without, primary)


def write_study(path: Path, study: LrStudy) -> None:
    """Write lr_study.json whole, and beside it the fronts of which it is made, as a table."""
    write_json(path, study.to_dict())
    write_whole(path.with_suffix(".csv"), fronts_csv(study.grid))


def _of_sensitivity(item: Sensitivity) -> dict[str, object]:
    found = asdict(item)
    case: dict[str, object] = found.pop("case")
    computed = {"words": item.words(), "decades": item.decades}
    return case | computed | _renamed(found, near_best="within_5_percent", auto="auto_lr", left_out="seeds_left_out")


def _of_verdict(item: Verdict, columns: Sequence[str]) -> dict[str, object]:
    found = asdict(item)
    case: dict[str, object] = found.pop("case")
    curve = _renamed(found.pop("curve"), equals="equals_best_of")
    return {
        **case,
        **_renamed(
            found,
            tuning="tuning_seeds",
            fresh="fresh_seeds",
            left_out="seeds_left_out",
            planned="fresh_seeds_planned",
            lost="fresh_seeds_lost",
        ),
        "words": words(item),
        "opponents": [_of_opponent(opponent, columns) for opponent in item.opponents],
        "tuning_curve": curve | {"above_all_rates": math.isinf(item.curve.equals)},
    }


def _of_opponent(item: Opponent, columns: Sequence[str]) -> dict[str, object]:
    result = item.result
    return {
        name: getattr(item, name)
        for name in ("name", "runs", "hand", "auto", "p_holm", "outcome", "comparisons", "primary")
    } | {
        "further": {box: sides._asdict() for box, sides in item.further.items()},
        "edge": asdict(item.edge) if item.edge else None,
        "ruin": asdict(item.ruin),
        "choice": [{**dict(zip(columns, setting, strict=True)), "lr": rate} for setting, rate in item.choice.items()],
        "difference": result.mean,
        "interval": None if item.bounds is None else list(item.bounds),
        "p": result.p if result.n and item.outcome != DESCRIBED else None,
        "seeds_ahead": asdict(result.ahead) if result.ahead else None,
        "seeds_tied": result.tied,
        "paired_t_interval": None if result.t_interval is None else list(result.t_interval),
        "sign_flip_p": result.sign_flip_p,
        "fresh_seeds_least": item.fresh_least,
        "fresh_seeds_needed": item.fresh_needed,
        "seeds_needed": None if item.fresh_needed is None else seeds_for(item.fresh_needed),
    }


def _of_fronts(item: ArmFronts) -> dict[str, object]:
    arms = zip(item.indicators.items(), item.sensitivity.hypervolumes, strict=True)
    return {
        "model": item.model,
        "dataset": item.dataset,
        "apart": item.apart,
        "references": item.sensitivity.references,
        "order_stable": item.sensitivity.stable,
        "arms": [
            {"name": name, "trials": item.trials[name], **asdict(found), "hypervolume_by_reference": row}
            | {"further": {box: asdict(arms[name]) for box, arms in item.further.items() if name in arms}}
            for (name, found), row in arms
        ],
    }


def _renamed(fields: dict[str, Any], **names: str) -> dict[str, Any]:
    """The fields of a dataclass under the names that the file gives them."""
    return {names.get(name, name): value for name, value in fields.items()}
