"""The registry of weightings.

To add a weighting, add a file with ``WEIGHTING = Weighting(...)`` to this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainables.registry import entries
from trainables.weightings.base import NO_GRAMIAN, Gradient, Gramian, Losses, Needs, State, Weighting, Weights

__all__ = ["NO_GRAMIAN", "WEIGHTINGS", "Gradient", "Gramian", "Losses", "Needs", "State", "Weighting", "Weights"]

_FIRST = (
    "gd", "ga", "gdiff", "lossnorm", "rlw", "ngdiff", "imtl-g", "pcgrad", "pcgrad-paper", "mgda", "cagrad",
    "gradvac", "gradnorm", "nash-mtl", "aligned-mtl", "upgrad", "dualproj", "graddrop", "rotograd", "rotograd-scale",
)  # fmt: skip
WEIGHTINGS: Mapping[str, Weighting] = entries(__name__, __path__, "WEIGHTING", first=_FIRST)
"""Every weighting by name, in the order in which commands list them."""
