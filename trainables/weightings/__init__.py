"""The weightings by name: pure functions from losses, Gramian and state to the weights of the two gradients.

Every file of this package that defines ``WEIGHTING`` adds a weighting.
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
"""Every weighting by name in the order of listings: cheap ones first, then in the literature's order."""
