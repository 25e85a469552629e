"""The interface of a weighting: a pure function from (losses, Gramian, state) to the weights of the two gradients.

Convention (as in multi-task libraries): two losses to *minimise*, ``l_r`` on the retain set and ``l_f`` on the forget
set (``-L_F`` under gradient ascent), with gradients ``g_r`` and ``g_f``. A weighting returns ``(w_r, w_f)`` and the
optimizer steps along ``d = w_r g_r + w_f g_f``. The weights are non-negative, except in methods published with negative
ones: ``aligned-mtl`` and ``pcgrad-paper``.

All values are Python floats (float64), so a weighting needs neither torch nor a device. Gradient norms from 1e-150 to
1e150, zero gradients and parallel gradients give finite weights; each method documents these cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from search_spaces.fields import Field

if TYPE_CHECKING:
    from torch import Tensor

Gradient = list["Tensor | None"]
"""One entry per trainable parameter; None if the loss does not depend on it."""

State = Mapping[str, float]
"""A weighting's memory between steps: JSON-able, replaced and never mutated."""

Options = Mapping[str, float]
"""A value for every option that the method declares."""


class Needs(StrEnum):
    """The values that the weights depend on; they determine the number of backward passes per step."""

    RETAIN_ONLY = "retain only"
    """The weights are (1, 0): one forward and backward of the retain batch."""
    FORGET_ONLY = "forget only"
    """The weights are (0, 1): one forward and backward of the forget batch."""
    LOSSES = "losses"
    """Known from the losses alone: one backward of the weighted sum, one gradient buffer."""
    GRAMIAN = "gramian"
    """Needs the norms and the dot product of both gradients: two backwards, two gradient buffers."""
    GRADIENTS = "gradients"
    """Acts on the two gradients element by element; no weights exist. Two backwards, two gradient buffers."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The two losses of the step, both to be minimised, detached."""

    retain: float
    forget: float


@dataclass(frozen=True, slots=True)
class Gramian:
    """``[[rr, rf], [rf, ff]]``: ``rr = g_r.g_r``, ``rf = g_r.g_f``, ``ff = g_f.g_f``, accumulated in float64."""

    rr: float
    rf: float
    ff: float

    @property
    def rho(self) -> float:
        """``|g_r|``."""
        return math.sqrt(self.rr)

    @property
    def phi(self) -> float:
        """``|g_f|``."""
        return math.sqrt(self.ff)

    @property
    def b(self) -> float:
        """``-rf``: positive when the two tasks conflict (``g_R . grad L_F`` under ascent)."""
        return -self.rf

    @property
    def k(self) -> float:
        """``b / (rho phi)``, the cosine of conflict: 1 opposed, -1 aligned, 0 if a gradient is zero."""
        scale = self.rho * self.phi
        return max(min(self.b / scale, 1.0), -1.0) if scale != 0 else 0.0  # keeps a NaN


@dataclass(frozen=True, slots=True)
class Weights:
    """``(w_r, w_f)``, the weights of the two gradients."""

    retain: float
    forget: float

    @property
    def c(self) -> float:
        """``c_t = w_r / (w_r + w_f)``, the share of the retain task; NaN when the weights sum to zero."""
        total = self.retain + self.forget
        return self.retain / total if total != 0 else math.nan

    def unit(self) -> Weights:
        """Return the same direction with weights summing to 1; unchanged if the sum is not positive.

        Dividing by a negative sum (possible with ``pcgrad-paper``) would reverse the direction.
        """
        total = self.retain + self.forget
        return Weights(self.retain / total, self.forget / total) if total > 0 else self


WeighFunction = Callable[[Losses, Gramian | None, State, Options], tuple[Weights, State]]
CombineFunction = Callable[[Gradient, Gradient, State, Options], tuple[Gradient, State]]


@dataclass(frozen=True, slots=True)
class Weighting:
    """One weighting in the registry.

    ``weigh(losses, gramian, state, options) -> (weights, new_state)`` is pure. ``gramian`` is given exactly if
    ``needs`` is ``GRAMIAN``. ``options`` has a value for every declared option. ``combine(retain, forget, state,
    options) -> (direction, new_state)`` exists exactly if ``needs`` is ``GRADIENTS``; it may reuse the gradients'
    memory, and ``weigh`` then raises ValueError. ``init(seed)`` returns the first state.
    """

    name: str
    formula: str
    needs: Needs
    weigh: WeighFunction
    citation: str
    options: tuple[Field, ...] = ()
    init: Callable[[int], State] = field(default=lambda seed: {})
    combine: CombineFunction | None = None


def require_gramian(gramian: Gramian | None) -> Gramian:
    """Return ``gramian``; raise ValueError if it is None."""
    if gramian is None:
        raise ValueError("this weighting needs the Gramian of the two gradients, got None")
    return gramian


def no_weights(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """Raise ValueError: the ``weigh`` of a method that combines the gradients themselves."""
    raise ValueError("this method combines the gradients element by element and has no weights")


def of_gramian(weights: Callable[[Gramian], Weights]) -> WeighFunction:
    """Return the ``weigh`` of a method that depends on the Gramian alone; the state does not change."""

    return lambda losses, gramian, state, options: (weights(require_gramian(gramian)), state)
