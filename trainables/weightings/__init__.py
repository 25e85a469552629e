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

WEIGHTINGS: Mapping[str, Weighting] = MappingProxyType(
    {
        "gd": gd.WEIGHTING,
        "ga": ga.WEIGHTING,
        "gdiff": gdiff.WEIGHTING,
        "lossnorm": lossnorm.WEIGHTING,
        "rlw": rlw.WEIGHTING,
        "ngdiff": ngdiff.WEIGHTING,
        "imtl-g": imtl_g.WEIGHTING,
        "pcgrad": pcgrad.WEIGHTING,
        "pcgrad-paper": pcgrad_paper.WEIGHTING,
        "mgda": mgda.WEIGHTING,
        "cagrad": cagrad.WEIGHTING,
        "gradvac": gradvac.WEIGHTING,
        "gradnorm": gradnorm.WEIGHTING,
        "nash-mtl": nash_mtl.WEIGHTING,
        "aligned-mtl": aligned_mtl.WEIGHTING,
        "upgrad": upgrad.WEIGHTING,
        "dualproj": dualproj.WEIGHTING,
        "graddrop": graddrop.WEIGHTING,
        "rotograd": rotograd.WEIGHTING,
        "rotograd-scale": rotograd_scale.WEIGHTING,
    }
)
"""Every weighting by name, in the order in which they are listed."""
