"""The weightings: pure maps from losses, Gramian and state to the weights of the two gradients, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.weightings import (
    aligned_mtl,
    cagrad,
    dualproj,
    ga,
    gd,
    gdiff,
    graddrop,
    gradnorm,
    gradvac,
    imtl_g,
    lossnorm,
    mgda,
    nash_mtl,
    ngdiff,
    pcgrad,
    pcgrad_paper,
    rlw,
    rotograd,
    rotograd_scale,
    upgrad,
)
from trainables.weightings.base import Gradient, Gramian, Losses, Needs, State, WeighFunction, Weighting, Weights

__all__ = ["WEIGHTINGS", "Gradient", "Gramian", "Losses", "Needs", "State", "WeighFunction", "Weighting", "Weights"]

_MODULES = (
    *(gd, ga, gdiff, lossnorm, rlw, ngdiff, imtl_g, pcgrad, pcgrad_paper, mgda, cagrad, gradvac, gradnorm, nash_mtl),
    *(aligned_mtl, upgrad, dualproj, graddrop, rotograd, rotograd_scale),
)
WEIGHTINGS: Mapping[str, Weighting] = MappingProxyType({module.WEIGHTING.name: module.WEIGHTING for module in _MODULES})
"""Every weighting by name, in the order in which they are listed."""
