"""The registry of AutoLR's rules, and the kinds of retain batches that they can probe. Add new rules here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from trainables.auto_lr.rule import Fit, Probe, Rule
from trainables.auto_lr.safe import SAFE

_PAPER = (
    "Bu, Jin et al., Unlearning as multi-task optimization: A normalized gradient difference approach with an "
    "adaptive learning rate, NAACL 2025 (arXiv:2410.22086)"
)
_GEN = "Bu and Xu, Gradient descent with generalized Newton's method, 2024 (arXiv:2407.02772), released code"


def _from_minimum(rate: Callable[[float, float], float]) -> Callable[[Fit, Probe], float | str]:
    """Return the ``choose`` of a rule that sets the rate to ``rate(eta, eta*)`` if the parabola has a minimum."""

    def choose(fit: Fit, probe: Probe) -> float | str:
        return str(fit.fallback) if fit.eta_star is None else rate(fit.eta, fit.eta_star)

    return choose


def _within_twice(eta: float, wanted: float) -> float:
    """Return ``wanted`` clipped to ``[eta/2, 2 eta]``."""
    return min(max(wanted, eta / 2.0), 2.0 * eta)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule("paper", "eta*", _PAPER, _from_minimum(lambda eta, wanted: wanted)),
            Rule("clip", "eta* clipped to [eta/2, 2 eta]", _GEN + ", its clipping alone", _from_minimum(_within_twice)),
            Rule(
                name="official",
                formula="0.9 eta + 0.1 (eta* clipped to [eta/2, 2 eta])",
                citation=_GEN,
                choose=_from_minimum(lambda eta, wanted: 0.9 * eta + 0.1 * _within_twice(eta, wanted)),
            ),
            SAFE,
        )
    }
)

PROBES: Mapping[str, str] = MappingProxyType(
    {
        "same": "the retain batch that the step's own gradient comes from, as in the paper",
        "fresh": "retain batches that the step has not seen, as in the released code of GeN",
    }
)
"""The kinds of retain batches to probe, with descriptions."""

PROBE_ROWS = 8
"""The minimum number of rows (examples) to probe. With fewer rows, the fitted curvature is mostly noise."""


def enough_probe_batches(batch_size: float) -> int:
    """Return the default number of fresh batches: at least two batches, with at least ``PROBE_ROWS`` rows in total."""
    return max(2, math.ceil(PROBE_ROWS / max(1.0, batch_size)))
