"""The objectives of a sweep: which reported metric, which way, and within which bounds fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainables.data import IMAGE_DATASETS
from trainables.evaluation import FINAL_METRICS, LOSSES
from trainables.vision.evaluation import ACCURACIES

_LABELS = {
    "forget_loss": "forget loss (nats per {unit})",
    "retain_loss": "retain loss (nats per {unit})",
    "verbmem": "verbatim memorisation of the forget set (ROUGE-L recall)",
    "utility": "utility on the retain set (ROUGE-L recall)",
    "truth_ratio": "truth ratio on the retain set",
    "forget_truth_ratio": "truth ratio on the forget set",
    "forget_accuracy": "accuracy on the forget set",
    "retain_accuracy": "accuracy on the retain set",
    "test_accuracy": "accuracy on held-out images of the retained classes",
}
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

    def to_dict(self, random_guess: float, *, unit: str = "token") -> dict[str, object]:
        """As sweep.json has it; losses are bounded by the random guess ``ln|V|``, all other metrics by 1.

        ``unit`` is what a loss is a mean over: token or image.
        """
        high = random_guess if self.name in LOSSES else 1.0
        return {
            "name": self.name,
            "column": self.column,
            "direction": self.direction,
            "low": 0.0,
            "high": high,
            "label": _LABELS.get(self.name, self.name).format(unit=unit),
        }


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """``name:max,name:min`` over reported metrics, at least two.

    Raises:
        ObjectiveError: unknown metric or direction, fewer than two, or one twice.
    """
    names = ("forget_loss", "retain_loss", *FINAL_METRICS)
    found = []
    for part in text.split(","):
        name, _, direction = part.strip().partition(":")
        if name not in names:
            raise ObjectiveError(f"unknown objective '{name}': expected one of {', '.join(names)}")
        if direction not in ("min", "max"):
            raise ObjectiveError(f"objective '{part.strip()}' needs a direction: {name}:min or {name}:max")
        found.append(Objective(name, direction))
    if len(found) < 2:
        raise ObjectiveError(f"a Pareto search needs at least two objectives, got '{text}'")
    if len({item.name for item in found}) < len(found):
        raise ObjectiveError(f"an objective is named twice in '{text}'")
    return tuple(found)


def unmeasured(objectives: Sequence[Objective], dataset: str) -> list[str]:
    """A plain sentence for each objective that no model of this data set is ever scored by."""
    images = dataset in IMAGE_DATASETS
    wrong = [item.name for item in objectives if item.name not in LOSSES and (item.name in ACCURACIES) != images]
    kind = "image classifiers" if images else "language models"
    measured = ACCURACIES if images else tuple(name for name in FINAL_METRICS if name not in ACCURACIES)
    expected = ", ".join(("forget_loss", "retain_loss", *measured))
    return [f"objective {name} is not measured for {kind}: expected one of {expected}" for name in wrong]
