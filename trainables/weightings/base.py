"""The interface of a weighting: a pure function from (losses, Gramian, state) to the weights of the two gradients.

Both losses are *minimised*: ``l_r`` on the retain set, and ``l_f`` on the forget set (``-L_F`` under gradient ascent).
The gradients of the losses are ``g_r`` and ``g_f``. A weighting returns ``(w_r, w_f)``, and the optimizer steps along
``d = w_r g_r + w_f g_f``. Only ``aligned-mtl``, ``blur`` and ``pcgrad-paper`` can return negative weights, as
published.

All values are Python floats (float64). The weights are finite for gradient norms from 1e-150 to 1e150. The docstring of
each method gives the weights for zero and parallel gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from search_spaces.common.fields import Field

if TYPE_CHECKING:
    from torch import Tensor

Gradient = list["Tensor | None"]
"""One tensor per trainable parameter; None if the loss does not depend on the parameter."""

State = Mapping[str, Any]
"""The values that a weighting keeps between steps: numbers; for ``Needs.GRADIENTS`` also gradients.

A state is replaced, never mutated. A run saves and loads it with its other tensors.
"""

Options = Mapping[str, float]
"""The value of every option of the weighting, by name."""


class Needs(StrEnum):
    """The values that the weights depend on. These values determine the number of backward passes per step."""

    RETAIN_ONLY = "retain only"
    """The weights are (1, 0). A step needs one backward pass, on the retain batch."""
    FORGET_ONLY = "forget only"
    """The weights are (0, 1). A step needs one backward pass, on the forget batch."""
    LOSSES = "losses"
    """The weights depend only on the losses. A step needs one backward pass, of the weighted sum."""
    GRAMIAN = "gramian"
    """The weights depend on the gradients' norms and dot product. A step needs two backward passes."""
    GRADIENTS = "gradients"
    """The method combines the gradients itself, without weights. A step needs two backward passes."""
    RETAIN_EXAMPLES = "gradients of retain examples"
    """Like ``GRADIENTS``, with one retain gradient per example. A step needs one backward pass per retain example."""

    @property
    def combines(self) -> bool:
        """Whether the method combines the gradients itself."""
        return self in (Needs.GRADIENTS, Needs.RETAIN_EXAMPLES)


@dataclass(frozen=True, slots=True)
class Losses:
    """The two losses of a step, as plain numbers. Both losses are minimised."""

    retain: float
    forget: float


@dataclass(frozen=True, slots=True)
class Gramian:
    """``[[rr, rf], [rf, ff]]``: ``rr = g_r.g_r``, ``rf = g_r.g_f``, ``ff = g_f.g_f``, computed in float64."""

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
        """``b = -rf``, which is positive if the tasks conflict. Under gradient ascent, ``b = g_r . grad L_F``."""
        return -self.rf

    @property
    def k(self) -> float:
        """``b / (rho phi)``, the negative cosine: 1 for opposed, -1 for aligned and 0 for zero gradients."""
        scale = self.rho * self.phi
        return max(min(self.b / scale, 1.0), -1.0) if scale != 0 else 0.0


NO_GRAMIAN = Gramian(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Weights:
    """``(w_r, w_f)``, the weights of the two gradients."""

    retain: float
    forget: float

    @property
    def c(self) -> float:
        """``c_t = w_r / (w_r + w_f)``, the relative weight of the retain gradient; NaN if the weights sum to zero."""
        total = self.retain + self.forget
        return self.retain / total if total != 0 else math.nan

    def unit(self) -> Weights:
        """Return the weights divided by their sum. If the sum is not positive, return the weights unchanged."""
        # Division by a negative sum, which pcgrad-paper can return, would reverse the direction.
        total = self.retain + self.forget
        return Weights(self.retain / total, self.forget / total) if total > 0 else self


WeighFunction = Callable[[Losses, Gramian, State, Options], tuple[Weights, State]]
CombineFunction = Callable[[Gradient, Gradient, State, Options], tuple[Gradient, State]]


@dataclass(frozen=True, slots=True)
class Weighting:
    """A weighting in the registry.

    Attributes:
        weigh: a pure function; None if ``needs.combines``. ``weigh(losses, gramian, state, options)`` returns the
            weights and the new state. The Gramian is ``NO_GRAMIAN`` unless ``needs`` is ``GRAMIAN``.
        init: ``init(seed)`` returns the first state.
        combine: only for ``Needs.GRADIENTS`` and ``Needs.RETAIN_EXAMPLES``. ``combine(retain, forget, state, options)``
            returns the direction and the new state, and may overwrite the gradients. For ``Needs.RETAIN_EXAMPLES``,
            the retain gradients have the shape ``(B, ...)``; the sum of the ``B`` rows is the batch's gradient.
        buffers: the number of gradients in the state, for estimates of memory and disk.
    """

    name: str
    formula: str
    needs: Needs
    citation: str
    weigh: WeighFunction | None = None
    options: tuple[Field, ...] = ()
    init: Callable[[int], State] = field(default=lambda seed: {})
    combine: CombineFunction | None = None
    buffers: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.needs, Needs):  # plug-ins are not type-checked
            raise ValueError(f"weighting {self.name}: needs must be a Needs, such as Needs.GRAMIAN, got {self.needs!r}")
        function_name = "combine" if self.needs.combines else "weigh"
        if getattr(self, function_name) is None:
            raise ValueError(f"weighting {self.name} needs the function '{function_name}'")


def of_gramian(weights: Callable[[Gramian], Weights]) -> WeighFunction:
    """Return the function ``weigh`` of a weighting without state whose weights depend only on the Gramian."""

    return lambda losses, gramian, state, options: (weights(gramian), state)
