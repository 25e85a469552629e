"""Fresh seeds that a verdict lacks, and whose runs did not end there: those that are left may be the easier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.study.lr_grid import Unit
from analysis.study.seeds import seeds_in_words

_MISSING = "are missing"
_HOW = {"failed": "failed", "stopped": "were stopped", "finished": "lack a value of an objective"}


@dataclass(frozen=True, slots=True)
class LostSeeds:
    """The ``seeds`` on which one side has no whole front, and ``how`` the runs that it lacks there came to lack."""

    side: str
    seeds: tuple[int, ...]
    how: tuple[str, ...]

    def words(self) -> str:
        """``runs with AutoLR failed or were stopped on seeds 18 to 23``."""
        return f"runs {self.side} {' or '.join(self.how)} on {seeds_in_words(self.seeds)}"


def lost_seeds(sides: Mapping[str, Mapping[float, Mapping[int, Unit]]], seeds: Iterable[int]) -> tuple[LostSeeds, ...]:
    """Per side those of ``seeds`` on which it lacks an outcome, at any rate or from any start."""
    wanted, found = tuple(seeds), []
    for side, arm in sides.items():
        lacks = {seed: tuple(how for units in arm.values() for how in _lacks(units.get(seed))) for seed in wanted}
        lost = tuple(seed for seed, how in lacks.items() if how)
        if lost:
            found.append(LostSeeds(side, lost, tuple(dict.fromkeys(how for seed in lost for how in lacks[seed]))))
    return tuple(found)


def lost_in_words(lost: Sequence[LostSeeds], planned: int) -> str:
    """``6 of 16 fresh seeds are left out: runs with AutoLR failed on seeds 18 to 23; ...``; "" where none is."""
    count = len({seed for item in lost for seed in item.seeds})
    if not count:
        return ""
    told = "; ".join(item.words() for item in lost)
    easier = any(how != _MISSING for item in lost for how in item.how) and count < planned
    return (
        f"{count} of {planned} fresh seeds {'is' if count == 1 else 'are'} left out: {told}"
        f"{'; those that are left may be the easier ones' if easier else ''}"
    )


def _lacks(unit: Unit | None) -> list[str]:
    """What became of the runs that a front lacks."""
    if unit is None:
        return [_MISSING]
    trials = (unit.trials.get(setting) for setting in unit.missing)
    return [_MISSING if trial is None else _HOW[str(trial.row["status"])] for trial in trials]
