"""Check whether a run has diverged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainables.gradients import total_norm

if TYPE_CHECKING:
    from torch.optim import Optimizer


RESTART_CUT = 4.0
"""The learning rate is divided by this number when a run restarts from the target's weights."""


class Diverged(Exception):
    """Raised if a loss or gradient is not finite, or if the optimizer's distance estimate exceeds its limit."""


def check_finite(value: float, what: str, when: str) -> float:
    """Return ``value`` if it is finite. Raise :class:`Diverged` if it is NaN or infinite."""
    if not math.isfinite(value):
        raise Diverged(f"{what} is {value} {when}")
    return value


def distance_columns(optimizer: Optimizer) -> dict[str, float]:
    """Return the columns ``distance`` and ``effective_lr`` for a learning-rate-free optimizer.

    ``distance`` is the optimizer's estimate of the distance from the initial weights to the solution. ``effective_lr``
    is the learning rate that results from the estimate. The result is empty for other optimizers, and before the first
    estimate.
    """
    group = optimizer.param_groups[0]
    if "d" in group:
        return {"distance": float(group["d"]), "effective_lr": float(group["d"] * group["lr"])}
    if "rbar" in group:
        return {"distance": float(group["rbar"]), "effective_lr": float(group["eta"][0])}
    return {}


def check_distance(optimizer: Optimizer, when: str) -> None:
    """Raise :class:`Diverged` if the optimizer's distance estimate exceeds its limit.

    For prodigy and dadapt-adam, the limit is 10, because a step moves every weight by about the estimate. For dog and
    dowg, the limit is ``10 (1 + |x_0|)``, where ``|x_0|`` is the norm of the initial weights.
    """
    group = optimizer.param_groups[0]
    columns = distance_columns(optimizer)
    if not columns:
        return
    if "d" in group:  # prodigy or dadapt-adam
        limit = 10.0
    else:
        if "start_length" not in group:
            group["start_length"] = 1.0 + float(total_norm(group["init_buffer"]))
        limit = 10.0 * float(group["start_length"])
    distance = columns["distance"]
    if not distance <= limit:  # also true if the distance is NaN
        raise Diverged(f"the optimizer's distance estimate grew to {distance:g}, above the limit {limit:g}, {when}")
