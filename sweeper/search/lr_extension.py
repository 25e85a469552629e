"""Add learning rates to the grid of an lr-study if the best fixed rate is the lowest or highest rate (``--extend``).

The added rates depend only on the tables and on sweep.json. So a killed study adds the same rates after a resume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweeper.settings.sweep_settings import SweepSettings
from trainables.spec import FIELDS

if TYPE_CHECKING:
    from analysis.study.lr_study import LrStudy

MAX_RATES = 4
"""The maximum number of rates added at each end of a grid."""

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Extension:
    """The rates to add to a method's grid, because its best fixed rate is the lowest or highest rate in ``tried``.

    ``rates`` is empty if no rate outside ``tried`` may be added.
    """

    method: str
    rates: tuple[float, ...]
    tried: tuple[float, ...]


def extensions(study: LrStudy, settings: SweepSettings) -> tuple[Extension, ...]:
    """Return an extension for each method whose best fixed rate is the lowest or highest rate tried."""
    rates_by_method: dict[str, set[float]] = defaultdict(set)
    for verdict in study.verdicts:
        for rate in verdict.edge.beyond if verdict.edge else ():
            rates_by_method[verdict.method_task.method].add(float(f"{rate:.2g}"))
    result = []
    for method, rates in rates_by_method.items():
        grid = [point["lr"] for point in fixed_points(settings, method)]
        added = [point["lr"] for point in settings.extension if point["method"] == method]
        tried = tuple(sorted({*grid, *added}))
        new_rates = tuple(rate for rate in sorted(rates) if rate not in tried and _is_allowed(rate, grid, added))
        result.append(Extension(method=method, rates=new_rates, tried=tried))
    return tuple(result)


def extended_settings(settings: SweepSettings, additions: Sequence[Extension]) -> dict[str, Any]:
    """Return new values of the settings ``extension`` and ``trials``, so that the study also runs the added rates."""
    points: list[Point] = []
    for addition in additions:
        fixed = fixed_points(settings, addition.method)
        # The points with a single rate contain each combination of the other parameters once.
        first_rate_points = [point for point in fixed if point["lr"] == fixed[0]["lr"]]
        points += [{**point, "lr": rate} for rate in addition.rates for point in first_rate_points]
    extension = (*settings.extension, *points)
    return {"extension": extension, "trials": (len(settings.space.grid()) + len(extension)) * settings.seeds}


def format_extensions(additions: Sequence[Extension]) -> list[str]:
    """Return one line for each method, with the added rates or the reason why no rate is added."""
    lines = []
    for addition in additions:
        added = f"adding lr {', '.join(f'{rate:g}' for rate in addition.rates)}"
        limit = f"no rate is added, because this edge already has {MAX_RATES} new rates or --lr forbids the next rate"
        lines.append(
            f"{addition.method}: the best rate is at the edge of the rates tried "
            f"(from {addition.tried[0]:g} to {addition.tried[-1]:g}); {added if addition.rates else limit}"
        )
    return lines


def fixed_points(settings: SweepSettings, method: str) -> list[Point]:
    """Return the grid points of a method that use a fixed learning rate."""
    return [
        point for point in settings.space.grid() if point["method"] == method and point.get("auto_lr", "off") == "off"
    ]


def _is_allowed(rate: float, grid: Sequence[float], added: Sequence[float]) -> bool:
    if rate < min(grid):
        added_at_edge = {added_rate for added_rate in added if added_rate < min(grid)}
    else:
        added_at_edge = {added_rate for added_rate in added if added_rate > max(grid)}
    return len(added_at_edge) < MAX_RATES and FIELDS["lr"].problem(rate) is None
