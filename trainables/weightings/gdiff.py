"""Gradient difference: fixed weights for the two losses."""

from __future__ import annotations

from search_spaces.common.fields import LOG_TO_ONE, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return ``(c, 1 - c)`` for the option ``c``: static linear scalarization (GDiff-0.9, GDiff-0.5, GDiff-0.1, ...).

    Even if c is 1 or 0, both losses are computed. So history.csv has both losses, and batch statistics and the random
    numbers of dropout do not depend on c. For c = 1 and c = 0, ``gd`` and ``ga`` need only half the computation.

    The search for c goes from 0.1, the paper's lower bound, to 0.995. The search is uniform in log(1 - c), because the
    retain loss of memorised data has a small gradient. For a small Phi model that had memorised TOFU's forget01, the
    useful values of c were 0.7 to 0.99 at lr 1e-4, and above 0.95 at lr 3e-4.
    """
    c = options["c"]
    return Weights(c, 1.0 - c), state


WEIGHTING = Weighting(
    name="gdiff",
    formula="(c, 1 - c)",
    needs=Needs.LOSSES,
    weigh=weigh,
    citation="Liu et al., Continual Learning and Private Unlearning, CoLLAs 2022 (arXiv:2203.12817)",
    options=(
        Field(
            "c",
            0.5,
            "weight of the retain loss; with 1, only the retain loss counts; with 0, only the forget loss",
            low=0.0,
            high=1.0,
        ).searched(
            0.1, 0.995, LOG_TO_ONE, "the NGDiff paper uses 0.1, 0.5 and 0.9; the search tries more values near 1"
        ),
    ),
)
