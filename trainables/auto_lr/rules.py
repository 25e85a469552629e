"""The registry of AutoLR's rules, and the kinds of probe batches. Add new rules here.

A rule is a function ``choose(fit, probe, delta)`` that returns the new rate, or the reason why the rate does not
change. ``fit`` is the parabola at the current rate, ``probe(x)`` measures the parabola at another rate ``x``, and
``delta`` is the setting ``auto_lr_delta``. If :attr:`Rule.shared`, the function returns the sum of the rates of all
steps until the next update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trainables.auto_lr.curvature import SHARE, find_bending_rate
from trainables.auto_lr.fit import Fit, Probe

NOT_FINITE, NO_DESCENT, NO_CURVATURE = "not finite", "no descent", "no curvature"
FALLBACKS = (NOT_FINITE, NO_DESCENT, NO_CURVATURE)
"""The reasons why an update keeps the rate.

``not finite``: a loss or the chosen rate is NaN or infinite. ``no descent``: G <= 0, so no step lowers the loss. ``no
curvature``: H <= 0, so the parabola has no minimum, or the loss is too flat to measure H.
"""

PROBES = ("same", "fresh")
"""The retain batches on which AutoLR measures losses.

``same``: the retain batch of the step, as in the paper. ``fresh``: other batches of the retain set, as in GeN.
"""

PROBE_ROWS = 8
"""The minimum number of examples per measured loss. With fewer examples, the fitted curvature is mostly noise."""


def enough_probe_batches(batch_size: float) -> int:
    """Return the number of batches that contain ``PROBE_ROWS`` examples, but at least 2."""
    return max(2, math.ceil(PROBE_ROWS / max(1.0, batch_size)))


def gen(fit: Fit, probe: Probe, delta: float) -> float | str:
    """Return ``eta* = G / H`` (arXiv:2410.22086, Eq. 8)."""
    if not fit.is_finite:
        return NOT_FINITE
    if fit.slope <= 0.0:
        return NO_DESCENT
    return fit.slope / fit.curvature if fit.curvature > 0.0 else NO_CURVATURE


def gen_clip(fit: Fit, probe: Probe, delta: float) -> float | str:
    """Return ``eta*``, clipped to ``[eta/2, 2 eta]``."""
    minimum = gen(fit, probe, delta)
    return minimum if isinstance(minimum, str) else min(max(minimum, fit.eta / 2.0), 2.0 * fit.eta)


def gen_official(fit: Fit, probe: Probe, delta: float) -> float | str:
    """Return ``0.9 eta`` plus 0.1 times the rate of :func:`gen_clip`, as in the released code of GeN.

    Source: Bu and Xu, Gradient descent with generalized Newton's method, 2024, arXiv:2407.02772.
    """
    clipped = gen_clip(fit, probe, delta)
    return clipped if isinstance(clipped, str) else 0.9 * fit.eta + 0.1 * clipped


def gen_trust(fit: Fit, probe: Probe, delta: float) -> float | str:
    """Return the largest x at which the parabola is at most ``delta`` (nats per token) above ``L0``.

    The result is ``x = (G+ + sqrt(G+^2 + 2 H delta)) / H``, where ``G+ = max(G, 0)``. With ``delta = 0``, x is the
    paper's stability bound ``2 eta*``. With ``G <= 0``, x is ``sqrt(2 delta / H)``. The k steps until the next
    update share x: if all of them have the direction d, the weights move by ``k eta d``, so the rate is ``x / k``.
    """
    if not fit.is_finite:
        return NOT_FINITE
    if fit.curvature <= 0.0:
        return NO_CURVATURE
    slope = max(fit.slope, 0.0)
    x = (slope + math.hypot(slope, math.sqrt(2.0 * fit.curvature * delta))) / fit.curvature
    return x if x > 0.0 else NO_DESCENT


def curvature(fit: Fit, probe: Probe, delta: float) -> float | str:
    """Return a fifth of the rate at which curvature alone raises the loss by 0.2 nats per token."""
    bending_rate = find_bending_rate(fit, probe)
    return NO_CURVATURE if bending_rate is None else SHARE * bending_rate


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by which AutoLR chooses the learning rate.

    Attributes:
        choose: see the module's docstring.
        start, probe: the defaults of the settings ``auto_lr_start`` and ``auto_lr_probe``.
        probe_batches: the default of ``auto_lr_probe_batches``; None for :func:`enough_probe_batches`.
        once: whether the rule makes no further update after an accepted update.
        shared: whether ``choose`` returns the sum of the rates of all steps until the next update. Otherwise,
            ``choose`` returns the rate of each of these steps.
    """

    choose: Callable[[Fit, Probe, float], float | str]
    start: int = 10
    probe: str = "same"
    probe_batches: int | None = None
    once: bool = False
    shared: bool = False

    def new_rate(self, fit: Fit, probe: Probe, *, delta: float, steps: int) -> float | str:
        """Return the new rate, which is finite and positive, or the reason in ``FALLBACKS`` why the rate is kept.

        Args:
            steps: the number of steps until the next update.
        """
        choice = self.choose(fit, probe, delta)
        if isinstance(choice, str):
            return choice
        rate = choice / steps if self.shared else choice
        return rate if math.isfinite(rate) and rate > 0.0 else NOT_FINITE


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "gen": Rule(gen),
        "gen-clip": Rule(gen_clip),
        "gen-official": Rule(gen_official),
        "gen-trust": Rule(gen_trust, probe="fresh", probe_batches=1, shared=True),
        "curvature": Rule(curvature, start=1, probe="fresh", once=True),
    }
)
"""AutoLR's rules by name. ``gen`` is the rule of the paper (arXiv:2410.22086)."""
