"""The registry of forget objectives, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.objectives import ascent, ce_u, npo, satimp, simnpo, wga
from trainables.objectives.base import ForgetBatch, ForgetObjective, Reference

OBJECTIVES: Mapping[str, ForgetObjective] = MappingProxyType(
    {module.OBJECTIVE.name: module.OBJECTIVE for module in (ascent, npo, simnpo, wga, satimp, ce_u)}
)

__all__ = ["OBJECTIVES", "ForgetBatch", "ForgetObjective", "Reference"]
