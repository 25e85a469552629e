"""Random loss weighting: new random weights in every step."""

from __future__ import annotations

import math
import random

from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return the softmax of two draws z from N(0, 1). The draws depend only on the state (seed, step)."""
    seed, step = int(state["seed"]), int(state["step"])
    rng = random.Random(f"{seed}:{step}")
    z_r = rng.gauss(0.0, 1.0)
    z_f = rng.gauss(0.0, 1.0)
    w_r = 1.0 / (1.0 + math.exp(z_f - z_r))  # |z_f - z_r| < 20, so exp does not overflow
    w_f = 1.0 / (1.0 + math.exp(z_r - z_f))
    return Weights(w_r, w_f), {"seed": seed, "step": step + 1}


WEIGHTING = Weighting(
    name="rlw",
    formula="softmax(z), where z are two numbers drawn from N(0, 1) in each step",
    needs=Needs.LOSSES,
    weigh=weigh,
    citation="Lin et al., Reasonable Effectiveness of Random Weighting: A Litmus Test for Multi-Task Learning, "
    "TMLR 2022 (arXiv:2111.10603)",
    init=lambda seed: {"seed": seed, "step": 0},
)
