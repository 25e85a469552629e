"""Dual: the weight of the retain loss rises while the loss exceeds a limit, and falls otherwise."""

from __future__ import annotations

from search_spaces.common.fields import LOG, Field
from trainables.weightings.base import Gramian, Losses, Needs, Options, State, Weighting, Weights


def weigh(losses: Losses, gramian: Gramian, state: State, options: Options) -> tuple[Weights, State]:
    """Return ``(multiplier, 1)``, and a state with the multiplier of the next step.

    The forget loss is minimised under the constraint ``l_r <= retain_limit``. The constraint's multiplier follows its
    gradient: ``multiplier <- max(0, multiplier + dual_lr (l_r - retain_limit))`` after each step, except for the first
    ``warmup`` steps. It starts at ``start``. The gradients are not needed.

    The method PDU is ``max-logit+dual``. Its authors start the multiplier at 50 or 100, use a limit above the target's
    retain loss (0.3 on TOFU), and change the multiplier after some epochs of warm-up. This formula is the one in
    github.com/locuslab/open-unlearning (MIT), ``src/trainer/unlearn/pdu.py``.
    """
    multiplier, step = state.get("multiplier", options["start"]), state["step"] + 1
    new_multiplier = multiplier
    if step > options["warmup"]:
        new_multiplier = max(0.0, multiplier + options["dual_lr"] * (losses.retain - options["retain_limit"]))
    return Weights(multiplier, 1.0), {"multiplier": new_multiplier, "step": step}


WEIGHTING = Weighting(
    name="dual",
    formula="(u, 1), where u <- max(0, u + dual_lr (l_r - retain_limit)) after each step",
    needs=Needs.LOSSES,
    weigh=weigh,
    citation="Entesari et al., Constrained Entropic Unlearning: A Primal-Dual Framework for Large Language Models, "
    "NeurIPS 2025 (arXiv:2506.05314)",
    options=(
        Field(
            "retain_limit", 0.3, "limit of the retain loss; a value above the target's retain loss", low=0.0, high=1e3
        ).searched(0.05, 1.0, LOG, "PDU's code uses 0.3 on TOFU, and 0.1 to 1.5 on MUSE"),
        Field("start", 1.0, "first weight of the retain loss", low=0.0, high=1e6).searched(
            1.0, 100.0, LOG, "PDU's code: 1 by default, 50 and 100 in its experiments"
        ),
        Field(
            "dual_lr", 1.0, "change of the weight per step and per unit of the loss above the limit", low=0.0, high=1e4
        ),
        Field("warmup", 0, "number of steps before the first change of the weight", low=0, high=1e6, kind=int),
    ),
    init=lambda seed: {"step": 0},
)
