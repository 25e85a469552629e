"""The registry of AutoLR's rules, and the kinds of probe batches. Add new rules here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from trainables.auto_lr.rule import Fit, Probe, Rule
from trainables.auto_lr.safe import SAFE


def from_minimum(rate: Callable[[float, float], float]) -> Rule:
    """Return a rule that sets the rate to ``rate(eta, eta*)``.

    Args:
        rate: function from the current rate ``eta`` and the minimum ``eta*`` of the parabola to the new rate. If the
            parabola has no minimum, the rate does not change.
    """

    def choose(fit: Fit, probe: Probe) -> float | str:
        if fit.eta_star is None:
            return str(fit.fallback)
        return rate(fit.eta, fit.eta_star)

    return Rule(choose)


def _within_twice(eta: float, minimum: float) -> float:
    return min(max(minimum, eta / 2.0), 2.0 * eta)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "paper": from_minimum(lambda eta, minimum: minimum),
        "clip": from_minimum(_within_twice),
        "official": from_minimum(lambda eta, minimum: 0.9 * eta + 0.1 * _within_twice(eta, minimum)),
        "safe": SAFE,
    }
)
"""AutoLR's rules by name.

``paper``: ``eta*``, as in Bu, Jin et al., Unlearning as multi-task optimization: A normalized gradient difference
approach with an adaptive learning rate, NAACL 2025 (arXiv:2410.22086). ``clip``: ``eta*``, clipped to
``[eta/2, 2 eta]``. ``official``: 0.9 times ``eta`` plus 0.1 times the rate of ``clip``, as in the released code of GeN
(Bu and Xu, Gradient descent with generalized Newton's method, 2024, arXiv:2407.02772). ``safe``: this project's rule.
"""

PROBES = ("same", "fresh")
"""The retain batches on which AutoLR measures losses.

``same``: the retain batch of the step, as in the paper. ``fresh``: other batches of the retain set, as in GeN.
"""

PROBE_ROWS = 8
"""The minimum number of examples per measured loss. With fewer examples, the fitted curvature is mostly noise."""


def enough_probe_batches(batch_size: float) -> int:
    """Return the default of ``auto_lr_probe_batches``: at least 2, and enough batches for ``PROBE_ROWS`` examples."""
    return max(2, math.ceil(PROBE_ROWS / max(1.0, batch_size)))
