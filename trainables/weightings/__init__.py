"""The registry of weightings. A weighting is a pure function from losses, Gramian and state to two gradient weights.

Every file in this package that defines ``WEIGHTING`` adds a weighting.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainables.registry import entries
from trainables.weightings.base import Gradient, Gramian, Losses, Needs, State, WeighFunction, Weighting, Weights

__all__ = ["WEIGHTINGS", "Gradient", "Gramian", "Losses", "Needs", "State", "WeighFunction", "Weighting", "Weights"]

_FIRST = (
    *("gd", "ga", "gdiff", "lossnorm", "rlw", "ngdiff", "imtl-g", "pcgrad", "pcgrad-paper", "mgda", "cagrad"),
    *("gradvac", "gradnorm", "nash-mtl", "aligned-mtl", "upgrad", "dualproj", "graddrop", "rotograd", "rotograd-scale"),
)
WEIGHTINGS: Mapping[str, Weighting] = entries(__name__, __path__, "WEIGHTING", first=_FIRST)
"""Every weighting by name, in the order in which lists show the weightings."""
