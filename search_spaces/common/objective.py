"""An objective: a column to minimise or maximise, its bounds, and its scale.

The bounds of all objectives form the *reference box*. The bounds are fixed before a sweep starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # the command line imports this module, and numpy would make --help slow
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_LINEAR_BELOW = 1 / 400
"""Below this fraction of the way from the best to the worst value, the scale ``symlog`` is nearly linear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A column of the tables to be minimized ("min") or maximized ("max").

    Raises ValueError if the direction, the bounds or the scale are invalid.

    Attributes:
        name: the metric that the user named.
        column: the column that is optimised, such as ``forget_loss_capped`` for the metric ``forget_loss``.
        low, high: the bounds of the metric, such as 0 and ln|V| for a loss. The bounds do not depend on the trials.
            As long as they are unknown, they are infinite, and the objective has no costs.
        label: the axis label, with the unit.
        scale: how the cost grows from the best to the worst bound: linearly; with the logarithm of the value
            (``log``); or with the logarithm of the distance from the best bound, and linearly near this bound
            (``symlog``).
    """

    name: str
    column: str
    direction: str
    low: float = -math.inf
    high: float = math.inf
    label: str = ""
    scale: Literal["linear", "log", "symlog"] = "linear"

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise ValueError(f"objective {self.name}: direction is '{self.direction}', expected min or max")
        if not self.low < self.high:
            raise ValueError(
                f"objective {self.name}: expected bounds with low < high, got {self.low:g} and {self.high:g}"
            )
        if self.scale == "log" and self.low <= 0:
            raise ValueError(
                f"objective {self.name}: a logarithmic scale needs a lower bound above 0, got {self.low:g}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Objective:
        """Return the objective from one entry of ``objectives`` in sweep.json (:meth:`to_dict`).

        Raises:
            ValueError: the direction or a bound is invalid, or a bound is infinite.
        """
        name, direction = str(values["name"]), str(values["direction"])
        low, high = float(values["low"]), float(values["high"])
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"objective {name}: expected finite bounds, got {low:g} and {high:g}")
        return cls(
            name=name,
            column=str(values.get("column") or name),
            direction=direction,
            low=low,
            high=high,
            label=str(values.get("label") or name),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the objective as an entry of sweep.json."""
        bounds = {"low": self.low, "high": self.high}
        return {"name": self.name, "column": self.column, "direction": self.direction, **bounds, "label": self.label}

    @property
    def best(self) -> float:
        """The better bound."""
        return self.low if self.direction == "min" else self.high

    @property
    def worst(self) -> float:
        """The worse bound, which is the coordinate of the reference point."""
        return self.high if self.direction == "min" else self.low

    def clip(self, values: ArrayLike) -> NDArray[np.float64]:
        """Replace the values beyond a bound by this bound."""
        import numpy as np

        return np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)

    def cost(self, values: ArrayLike) -> NDArray[np.float64]:
        """Clip values to the bounds, and scale them to [0, 1]: 0 at the better bound, 1 at the worse bound."""
        import numpy as np

        return np.clip(self.unclipped_cost(self.clip(values)), 0.0, 1.0)  # rounding errors of the logarithm

    def unclipped_cost(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the costs of values, which are above 1 beyond the worse bound. The cost of NaN is NaN."""
        import numpy as np

        array = np.asarray(values, dtype=np.float64)
        if self.scale == "log":
            share = np.log(array / self.low) / math.log(self.high / self.low)
            return np.asarray(share if self.direction == "min" else 1.0 - share)
        share = (array - self.best) / (self.worst - self.best)
        if self.scale == "symlog":
            share = np.log1p(np.maximum(share, 0.0) / _LINEAR_BELOW) / math.log1p(1 / _LINEAR_BELOW)
        return np.asarray(share)

    def oriented(self, values: ArrayLike) -> NDArray[np.float64]:
        """Negate the values of a maximized objective, so that smaller values are better."""
        import numpy as np

        array = np.asarray(values, dtype=np.float64)
        return array if self.direction == "min" else -array
