"""Model utility: one number for what a model still knows outside the forget set."""

from __future__ import annotations

import math
from typing import NamedTuple


class Scores(NamedTuple):
    """The three aggregates of one evaluation set, each in [0, 1] and better when higher."""

    probability: float
    rouge_l_recall: float
    truth_ratio: float


def model_utility(*, retain: Scores, real_authors: Scores, world_facts: Scores) -> float:
    """Harmonic mean of the nine scores, in [0, 1]: 0 where any is 0, NaN where any is NaN.

    Raises ValueError for a negative score. Maini et al., TOFU (arXiv:2401.06121).
    """
    nine = (*retain, *real_authors, *world_facts)
    if any(score < 0 for score in nine):
        raise ValueError(f"scores of a model's utility are not negative, got {nine}")
    if any(math.isnan(score) for score in nine):
        return math.nan
    if 0.0 in nine:
        return 0.0
    # Dividing by the smallest keeps every reciprocal finite, for a diverged model's 1e-310 too.
    smallest = min(nine)
    return smallest * len(nine) / math.fsum(smallest / score for score in nine)
