"""Why a method has no verdict: what would have to be run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from analysis.study.lr_grid import LrGrid, Unit
from analysis.study.placed_trials import Case, PlacedTrial
from analysis.study.seeds import seeds_in_words
from analysis.tables.columns import short
from analysis.words import number

Arm = Mapping[float, Mapping[int, Unit]]
_ENDED = {"finished": "finished without a value of every objective"}


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A method and a variant of AutoLR, "" where there is no run with it, without a verdict; ``why`` is in words."""

    case: Case
    variant: str
    why: str


def no_verdicts(grid: LrGrid, judged: Collection[tuple[Case, str]]) -> tuple[NoVerdict, ...]:
    """Every method, problem and AutoLR variant of the grid that is not among those ``judged``."""
    return tuple(
        NoVerdict(case, variant, _why(grid, case, variant))
        for case in grid.cases
        for variant in grid.variants(case) or ("",)
        if (case, variant) not in judged
    )


def _why(grid: LrGrid, case: Case, variant: str) -> str:
    hand, auto = grid.arm(case), grid.arm(case, variant) if variant else {}
    if not hand:
        return "there is no run at a fixed learning rate"
    if not auto:
        return "there is no run with AutoLR"
    columns = grid.setting_columns
    hole = _hole(auto, "with AutoLR", "with AutoLR from lr", columns)
    hole = hole or _hole(hand, "at a fixed learning rate", "at the fixed lr", columns)
    if hole:
        return hole
    of_hand, of_auto = (sorted({seed for units in arm.values() for seed in units}) for arm in (hand, auto))
    if set(of_hand).isdisjoint(of_auto):
        fixed, own = seeds_in_words(of_hand), seeds_in_words(of_auto)
        return f"no seed was run on both sides, fixed learning rates on {fixed} and AutoLR on {own}"
    return "on no seed did all runs end, those at every fixed learning rate and those from every start of AutoLR"


def _hole(arm: Arm, side: str, of_rate: str, columns: Sequence[str]) -> str:
    """``no run with AutoLR at c 0.9 ended on any seed (there is none)``; "" where every part of a side has one."""
    units = [unit for by_seed in arm.values() for unit in by_seed.values()]
    settings = dict.fromkeys(setting for unit in units for setting in (*unit.trials, *unit.missing))
    parts = {side: [trial for unit in units for trial in unit.trials.values()]}
    for setting in settings:
        told = ", ".join(f"{short(name)} {number(value)}" for name, value in zip(columns, setting, strict=True))
        parts[f"{side} at {told}"] = [unit.trials[setting] for unit in units if setting in unit.trials]
    for lr, by_seed in arm.items():
        parts[f"{of_rate} {number(lr)}"] = [trial for unit in by_seed.values() for trial in unit.trials.values()]
    empty = (part for part, trials in parts.items() if not any(trial.judged for trial in trials))
    return next((_none_ended(part, parts[part]) for part in empty), "")


def _none_ended(part: str, trials: Sequence[PlacedTrial]) -> str:
    found = Counter(str(trial.row["status"]) for trial in trials)
    told = ", ".join(f"{count} {_ENDED.get(status, status)}" for status, count in found.items())
    return f"no run {part} ended on any seed ({told or 'there is none'})"
