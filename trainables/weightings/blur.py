"""BLUR: the forget loss falls at a fixed relative rate, and the retain loss falls as far as that allows."""

from __future__ import annotations

from search_spaces.common.fields import LOG, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return the weights of the ``d`` that is closest to ``g_r`` and has ``g_f.d = gamma |g_f|^2``.

    The forget problem is the lower level of a bi-level problem, so it has priority: ``d = g_r + xi g_f`` with
    ``xi = gamma - g_r.g_f/|g_f|^2``, and the weights are ``(1, xi)``. If the option ``upper`` is 1, the tasks change
    roles: the weights are ``(xi, 1)`` with ``xi = gamma - g_r.g_f/|g_r|^2``.

    The weight ``xi`` is negative if the other gradient alone would lower the loss faster than ``gamma`` demands. If a
    gradient is zero, ``xi = gamma``. The authors' code (github.com/hadireisizadeh/BLURLLMUnlearning, no licence) has
    the same formula; this function was written from the paper.
    """
    lower_norm, upper_norm = gramian.phi, gramian.rho
    if options["upper"]:
        lower_norm, upper_norm = upper_norm, lower_norm
    cosine = -gramian.k  # 0 if a gradient is zero
    xi = options["gamma"] - (cosine * (upper_norm / lower_norm) if cosine else 0.0)
    return (Weights(xi, 1.0) if options["upper"] else Weights(1.0, xi)), state


WEIGHTING = Weighting(
    name="blur",
    formula="(1, gamma - g_r.g_f/|g_f|^2); with upper = 1: (gamma - g_r.g_f/|g_r|^2, 1)",
    needs=Needs.GRAMIAN,
    weigh=weigh,
    citation="Reisizadeh et al., BLUR: A Bi-Level Optimization Approach for LLM Unlearning, 2025 (arXiv:2506.08164)",
    options=(
        Field(
            "gamma", 1.0, "rate at which the lower level's loss falls, relative to its own gradient", low=0.0, high=1e4
        ).searched(0.01, 10.0, LOG, "BLUR's code uses 1 on MUSE, and weights equivalent to 1/800 on WMDP"),
        Field(
            "upper",
            0,
            "0: the forget loss is the lower level and has priority; 1: the retain loss",
            low=0,
            high=1,
            kind=int,
        ),
    ),
)
