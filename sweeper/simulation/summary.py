"""What a simulation says: per arm how near to the whole table's front after which share of its epochs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from analysis.figures.panels import Band, Guide, Line, Panel, PanelFigure, colours_of, finite_lines
from sweeper.simulation.progress import EPSILON, HYPERVOLUME, Progress, quantiles
from sweeper.simulation.replay import Arm, Course
from sweeper.simulation.table import Table, Yardstick

SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Of the whole table's epochs: where an arm is looked at."""


@dataclass(frozen=True)
class Simulated:
    """An arm with its replays; each was made of one of the tables, and both lists have the same order."""

    arm: Arm
    courses: tuple[Course, ...]
    curves: tuple[Progress, ...]

    def at(self, epochs: int) -> dict[str, float]:
        """Median and worst after so many epochs."""
        shares = [float(curve.share[epochs]) for curve in self.curves]
        lacks = [float(curve.epsilon[epochs]) for curve in self.curves]
        return {
            "epochs": epochs,
            "hypervolume_median": statistics.median(shares),
            "hypervolume_worst": min(shares),
            "epsilon_median": statistics.median(lacks),
            "epsilon_worst": max(lacks),
        }

    def epochs_to_front(self) -> int | None:
        """The median of the epochs after which the front counts as found; None where half of the replays or more
        never found it."""
        reached = sorted(curve.reached for curve in self.curves if curve.reached is not None)
        middle = len(self.curves) // 2
        return reached[middle] if middle < len(reached) else None


def looks(table: Table, spent: int) -> list[int]:
    """The epochs at which arms are looked at, none after the last one spent."""
    found = {max(1, round(share * table.all_epochs)) for share in SHARES}
    return sorted({min(epochs, spent) for epochs in found})


def to_dict(tables: Sequence[Table], yardsticks: Sequence[Yardstick], arms: Sequence[Simulated]) -> dict[str, object]:
    """All of it, for JSON."""
    return {
        "tables": [
            {
                "seed": table.seed,
                "runs": len(table.runs),
                "epochs": table.all_epochs,
                "hypervolume": yardstick.volume,
                "front": len(yardstick.front),
            }
            for table, yardstick in zip(tables, yardsticks, strict=True)
        ],
        "objectives": [f"{item.name}:{item.direction}" for item in tables[0].objectives],
        "found": {"hypervolume": HYPERVOLUME, "epsilon": EPSILON},
        "arms": [_arm(simulated, tables[0]) for simulated in arms],
    }


def _arm(simulated: Simulated, table: Table) -> dict[str, object]:
    courses = simulated.courses
    return {
        "arm": simulated.arm.label,
        **asdict(simulated.arm),
        "seeds": len(courses),
        "spent": statistics.median(course.spent for course in courses),
        "trials_begun": statistics.median(course.trials for course in courses),
        "trials_stopped": statistics.median(course.stopped for course in courses),
        "distance": statistics.fmean(course.distance for course in courses),
        "epochs_to_front": simulated.epochs_to_front(),
        "at": [simulated.at(epochs) for epochs in looks(table, max(course.spent for course in courses))],
    }


def lines(content: Mapping[str, object]) -> list[str]:
    """The same as a table for people."""
    tables, arms = content["tables"], content["arms"]
    assert isinstance(tables, list)
    assert isinstance(arms, list)
    found = [
        f"table: {table['runs']} runs, {table['epochs']} epochs, {table['front']} of them on the front, "
        f"hypervolume {table['hypervolume']:.3f} (seed {table['seed']})"
        for table in tables
    ]
    found.append("hypervolume as a share of the table's, and additive epsilon; median (worst) over the seeds")
    width = max(len(arm["arm"]) for arm in arms)
    for arm in arms:
        front = arm["epochs_to_front"]
        told = f"the front after {front} epochs" if front is not None else "the front is not found by most"
        found.append(
            f"{arm['arm']:<{width}}  {arm['trials_begun']:g} trials, {arm['trials_stopped']:g} stopped; {told}"
        )
        for at in arm["at"]:
            volume, lacks = (
                f"{at[f'{name}_median']:.3f} ({at[f'{name}_worst']:.3f})" for name in ("hypervolume", "epsilon")
            )
            found.append(f"  {at['epochs']:>6} epochs  hypervolume {volume}  epsilon {lacks}")
    return found


def figure(arms: Sequence[Simulated], *, tenth: float) -> PanelFigure[Panel]:
    """Both curves of every arm: the median, and down or up to the worst as a band where there is one arm only."""
    colours = colours_of([simulated.arm.label for simulated in arms])
    panels = []
    for name, label, worst, goal in (
        ("share", "share of the table's hypervolume", "min", HYPERVOLUME),
        ("epsilon", "additive epsilon", "max", EPSILON),
    ):
        drawn: list[Line] = []
        bands: list[Band] = []
        for simulated in arms:
            spent = max(course.spent for course in simulated.courses)
            median, edge = quantiles([getattr(curve, name) for curve in simulated.curves], worst=worst)
            xs, colour = range(spent + 1), colours[simulated.arm.label][0]
            drawn += finite_lines(simulated.arm.label, xs, median[: spent + 1], colour)
            if len(arms) == 1:
                low, high = sorted((median, edge), key=lambda curve: float(curve.sum()))
                bands.append(
                    Band("to the worst seed", tuple(xs), tuple(low[: spent + 1]), tuple(high[: spent + 1]), colour)
                )
        guides = (Guide("y", goal, f"{goal:g}"), Guide("x", tenth, "a tenth"))
        limits = (0.5, 1.005) if name == "share" else (0.0, 0.5)
        panels.append(
            Panel("", "epochs spent", label, tuple(drawn), tuple(bands), guides, y_limits=limits, x_whole=True)
        )
    return PanelFigure(
        "simulation",
        "Searches replayed on the table",
        "Median over the seeds. A tenth of the table's epochs and the goals are marked.",
        tuple(panels),
    )
