"""Gradient sign dropout: if the two gradients of an element differ in sign, keep only one sign, chosen at random."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from search_spaces.common.fields import LINEAR, Field
from trainables.weightings.base import Gradient, Needs, Options, State, Weighting

if TYPE_CHECKING:
    from torch import Tensor


def drop_signs(g_r: Tensor, g_f: Tensor, draws: Tensor, leak: float) -> Tensor:
    """Return ``sum_i (leak + (1 - leak) M_i) g_i`` over the two gradients, element by element.

    All tensors have the same shape. The purity of the positive sign is ``P = (1 + (g_r + g_f)/(|g_r| + |g_f|))/2``.
    ``draws`` is uniform in [0, 1). ``M_i`` is 1 where ``P > draws`` and ``g_i > 0``, and where ``P < draws`` and
    ``g_i < 0``. Elsewhere, ``M_i`` is 0.
    """
    import torch

    purity = (1.0 + (g_r + g_f) / (g_r.abs() + g_f.abs())) / 2.0
    keeps_positive = purity > draws
    keeps_negative = purity < draws

    def keep_sign(gradient: Tensor) -> Tensor:
        mask = (keeps_positive & (gradient > 0)) | (keeps_negative & (gradient < 0))
        return torch.where(mask, gradient, leak * gradient)

    return keep_sign(g_r) + keep_sign(g_f)


def combine(retain: Gradient, forget: Gradient, state: State, options: Options) -> tuple[Gradient, State]:
    """Return the direction of the step (one tensor per parameter; None if both gradients are None), and the new state.

    The paper applies the method to the gradients of a shared activation. Like torchjd, this function applies the method
    to the gradients of the parameters. If one gradient of a parameter is None, the other gradient is used unchanged.
    The random draws depend only on the state (seed, step).
    """
    import torch

    seed, step = int(state["seed"]), int(state["step"])
    key = random.Random(f"graddrop:{seed}:{step}").getrandbits(63)
    generator: torch.Generator | None = None
    combined: Gradient = []
    for g_r, g_f in zip(retain, forget, strict=True):
        if g_r is None or g_f is None:
            combined.append(g_f if g_r is None else g_r)
            continue
        if generator is None:
            generator = torch.Generator(g_r.device).manual_seed(key)
        draws = torch.rand(g_r.shape, dtype=g_r.dtype, device=g_r.device, generator=generator)
        combined.append(drop_signs(g_r, g_f, draws, options["leak"]))
    return combined, {"seed": seed, "step": step + 1}


WEIGHTING = Weighting(
    name="graddrop",
    formula="sum_i (leak + (1 - leak) M_i) g_i, where the masks M_i keep the positive values of an entry with "
    "probability (1 + sum_i g_i/sum_i |g_i|)/2, and the negative values otherwise",
    needs=Needs.GRADIENTS,
    combine=combine,
    citation="Chen et al., Just Pick a Sign: Optimizing Deep Multitask Models with Gradient Sign Dropout, "
    "NeurIPS 2020 (arXiv:2010.06808)",
    options=(
        Field(
            "leak",
            0.0,
            "factor for gradient entries whose sign is not kept; 0 drops these entries, 1 gives the sum of the "
            "gradients",
            low=0.0,
            high=1.0,
        ).searched(0.0, 0.9, LINEAR, "GradDrop (arXiv:2010.06808) uses values from 0 to 1; 1 gives the gradients' sum"),
    ),
    init=lambda seed: {"seed": seed, "step": 0},
)
