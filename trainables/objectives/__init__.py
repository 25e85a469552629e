"""The registries of forget and retain objectives, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.objectives import ascent, ce_u, dpo, npo, rmu, satimp, simnpo, undial, wga
from trainables.objectives.base import ForgetBatch, ForgetObjective, HiddenBatch, Reference
from trainables.objectives.retain import RETAIN_OBJECTIVES

OBJECTIVES: Mapping[str, ForgetObjective] = MappingProxyType(
    {module.OBJECTIVE.name: module.OBJECTIVE for module in (ascent, npo, simnpo, dpo, wga, satimp, undial, ce_u, rmu)}
)

ALIASES: Mapping[str, str] = MappingProxyType({"idk-dpo": "dpo"})
"""Other names of forget objectives."""

__all__ = [
    "ALIASES",
    "OBJECTIVES",
    "RETAIN_OBJECTIVES",
    "ForgetBatch",
    "ForgetObjective",
    "HiddenBatch",
    "Reference",
]
