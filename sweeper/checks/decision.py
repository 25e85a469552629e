"""Compute what a planned learning-rate study can decide, and how many runs it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from search_spaces.common.messages import counted
from sweeper.settings.study import comparisons_of
from sweeper.settings.sweep_settings import SweepSettings

SPREAD = 0.04
"""The assumed standard deviation, between seeds, of the difference in utility of two arms."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a study can decide.

    Attributes:
        comparisons: the number of comparisons that are corrected together.
        detectable: the smallest difference in utility that the study shows with a power of 0.8 against one fixed rate,
            if differences vary between seeds with the standard deviation ``spread``; None if it cannot show any.
        hand_runs, auto_runs: the numbers of runs with fixed rates and with automatic rates.
    """

    seeds: int
    comparisons: int
    spread: float
    detectable: float | None
    hand_runs: int
    auto_runs: int

    def format(self) -> str:
        runs = f"{self.hand_runs} runs with fixed rates and {self.auto_runs} with automatic rates"
        seeds, comparisons = counted(self.seeds, "seed"), counted(self.comparisons, "comparison")
        if self.detectable is None:
            return f"none, because {seeds} are too few for {comparisons}; {runs}"
        return (
            f"{seeds} in {comparisons} show a difference of {self.detectable:.2g} in utility with a power of 0.8, if "
            f"differences vary between seeds with a standard deviation of {self.spread:g}; {runs}"
        )


def planned_decision(settings: SweepSettings) -> Decision:
    from analysis.study.paired import detectable  # imports SciPy, which is slow

    points = [*settings.space.grid(), *settings.extension]
    hand_runs = settings.seeds * sum(point.get("auto_lr", "off") == "off" for point in points)
    comparisons = comparisons_of(settings.space, settings.primary)
    smallest = detectable(settings.seeds, SPREAD, comparisons)
    return Decision(
        seeds=settings.seeds,
        comparisons=comparisons,
        spread=SPREAD,
        detectable=None if math.isnan(smallest) else smallest,
        hand_runs=hand_runs,
        auto_runs=settings.seeds * len(points) - hand_runs,
    )
