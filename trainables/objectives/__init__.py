"""The registries of forget objectives and retain objectives.

To add a forget objective, add a file with ``OBJECTIVE = ForgetObjective(...)`` to this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.objectives.base import ForgetBatch, ForgetObjective, HiddenBatch, MeanOver, Reference
from trainables.objectives.retain import RETAIN_OBJECTIVES
from trainables.registry import entries

_FIRST = ("ascent", "npo", "simnpo", "dpo", "wga", "satimp", "undial", "ce-u", "rmu", "jensun", "flat", "max-logit")
OBJECTIVES: Mapping[str, ForgetObjective] = entries(__name__, __path__, "OBJECTIVE", first=_FIRST)

ALIASES: Mapping[str, str] = MappingProxyType({"idk-dpo": "dpo"})
"""Alternative names of forget objectives."""

__all__ = [
    "ALIASES",
    "OBJECTIVES",
    "RETAIN_OBJECTIVES",
    "ForgetBatch",
    "ForgetObjective",
    "HiddenBatch",
    "MeanOver",
    "Reference",
]
