"""``lr-study --extend``: where the best fixed rate lies at the edge of the grid, the rates beyond it are run as well.

What is added follows from the tables and from sweep.json alone, so that a study killed anywhere goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweeper.settings.sweep_settings import SweepSettings
from trainables.spec import FIELDS

if TYPE_CHECKING:
    from analysis.study.lr_study import LrStudy

MOST_RATES = 4
"""How many rates are added to a method's grid on each side at most: two decades at the default spacing and more."""

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Extension:
    """The ``rates`` that a method's grid is to have besides; ``why`` is a plain sentence."""

    method: str
    rates: tuple[float, ...]
    why: str


def extensions(study: LrStudy, settings: SweepSettings) -> tuple[Extension, ...]:
    """What the judged study still lacks; an entry without rates says why nothing more is added for a method."""
    beyond: dict[str, dict[float, str]] = {}
    for verdict in study.verdicts:
        for opponent in verdict.opponents:
            for rate in opponent.edge.beyond if opponent.edge else ():
                whose = f"{verdict.case.method}, the {opponent.name}"
                beyond.setdefault(verdict.case.method, {}).setdefault(float(f"{rate:.2g}"), whose)
    found = []
    for method, rates in beyond.items():
        grid = [point["lr"] for point in fixed_points(settings, method)]
        added = [point["lr"] for point in settings.extension if point["method"] == method]
        tried = sorted({*grid, *added})
        new = tuple(rate for rate in sorted(rates) if _is_allowed(rate, grid, added) and rate not in tried)
        why = f"{rates[min(rates)]}: the best rate is at the edge of the rates tried, {tried[0]:g} to {tried[-1]:g}"
        found.append(Extension(method, new, why))
    return tuple(found)


def extended(settings: SweepSettings, found: Sequence[Extension]) -> dict[str, Any]:
    """The settings, by name, under which the study goes on with these rates."""
    points = [
        {**point, "lr": rate} for item in found for rate in item.rates for point in _one_rate(settings, item.method)
    ]
    extension = (*settings.extension, *points)
    return {"extension": extension, "trials": (len(settings.space.grid()) + len(extension)) * settings.seeds}


def format_extensions(found: Sequence[Extension]) -> list[str]:
    """What is added and why, or why no more is."""
    return [
        f"{item.why}; adding lr {', '.join(f'{rate:g}' for rate in item.rates)}"
        if item.rates
        else f"{item.why}; nothing more is added: at most {MOST_RATES} rates beyond the grid, within lr's own bounds"
        for item in found
    ]


def fixed_points(settings: SweepSettings, method: str) -> list[Point]:
    """The grid's points of a method at fixed rates."""
    return [
        point for point in settings.space.grid() if point["method"] == method and point.get("auto_lr", "off") == "off"
    ]


def _one_rate(settings: SweepSettings, method: str) -> list[Point]:
    """The method's points at one of its fixed rates: one for every combination of its options."""
    points = fixed_points(settings, method)
    return [point for point in points if point["lr"] == points[0]["lr"]]


def _is_allowed(rate: float, grid: Sequence[float], added: Sequence[float]) -> bool:
    below = [other for other in added if other < min(grid)]
    above = [other for other in added if other > max(grid)]
    room = len(set(below if rate < min(grid) else above)) < MOST_RATES
    return room and FIELDS["lr"].problem(rate) is None
