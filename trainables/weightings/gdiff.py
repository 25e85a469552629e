"""Gradient difference: a fixed trade-off between the two losses."""

from __future__ import annotations

from search_spaces.fields import LOG_TO_ONE, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian | None, state: State, options: Options) -> tuple[Weights, State]:
    """``(c, 1 - c)`` with the option ``c``: static linear scalarization, GDiff-0.9, GDiff-0.5, GDiff-0.1, ...

    At c = 1 and c = 0 both batches still run, so that history.csv has both losses, and batch statistics and dropout's
    random numbers are the same for every c. ``gd`` and ``ga`` are the same directions at half the cost.

    The retain loss of memorised data is small and its gradient weak, so the trade-off between the losses happens close
    to c = 1: for a small Phi that had memorised TOFU's forget01, between 0.7 and 0.99 at lr 1e-4 and above 0.95 at
    3e-4. Below that the forget loss exceeds a random guess and only the retain loss still grows. Hence c is searched
    uniformly in log(1 - c), with half of the samples above 0.93, down to the paper's 0.1.
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
        Field("c", 0.5, "share of the retain loss: 1 only retains, 0 only forgets", low=0.0, high=1.0).searched(
            0.1, 0.995, LOG_TO_ONE, "the paper: 0.1, 0.5, 0.9; fine near 1, see weigh"
        ),
    ),
)
