"""The objectives of a sweep: which reported metric, which way, and within which bounds fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS

DEFAULT_OBJECTIVES = "forget_loss:max,retain_loss:min"


class ObjectiveError(ValueError):
    """The objectives cannot be read; the message is a plain sentence for the user."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One axis of the search. ``column`` is what is optimised: the capped forget loss for ``forget_loss``."""

    name: str
    direction: str

    @property
    def column(self) -> str:
        """The column of trials.csv."""
        return "forget_loss_capped" if self.name == "forget_loss" else self.name

    def to_dict(self, random_guess: float) -> dict[str, object]:
        """As sweep.json has it; losses are bounded by the random guess ``ln|V|``, other metrics by their table."""
        metric = METRICS[self.name]
        return {
            "name": self.name,
            "column": self.column,
            "direction": self.direction,
            "low": metric.low,
            "high": random_guess if metric.high is None else metric.high,
            "label": metric.label,
        }


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """``name:max,name:min`` over reported metrics, at least two.

    Raises:
        ObjectiveError: unknown metric or direction, fewer than two, or one twice.
    """
    found = []
    for part in text.split(","):
        name, _, direction = part.strip().partition(":")
        if name not in METRICS:
            raise ObjectiveError(f"unknown objective '{name}': expected one of {', '.join(METRICS)}")
        if direction not in ("min", "max"):
            raise ObjectiveError(f"objective '{part.strip()}' needs a direction: {name}:min or {name}:max")
        found.append(Objective(name, direction))
    if len(found) < 2:
        raise ObjectiveError(f"a Pareto search needs at least two objectives, got '{text}'")
    if len({item.name for item in found}) < len(found):
        raise ObjectiveError(f"an objective is named twice in '{text}'")
    return tuple(found)


def with_objectives(metrics: tuple[str, ...], objectives: tuple[Objective, ...]) -> tuple[str, ...]:
    """The chosen ``metrics`` and those the objectives need beside them; () stays () where the default set has all."""
    further = [item.name for item in objectives if item.name not in (*LOSS_METRICS, *DEFAULT_SET, *metrics)]
    default = [item.name for item in objectives if item.name in DEFAULT_SET and item.name not in metrics]
    if not metrics:
        return ("default", *further) if further else ()
    return (*metrics, *default, *further)
