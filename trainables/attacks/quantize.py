"""Round the weights to 8 or 4 bits, as a user with little memory does. Forgotten answers can come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.attacks.attack import ACCURACIES, FACTS, KEPT, Attack, Effort, measured_after
from trainables.attacks.model import editable

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.scoring.base import Scores


def nf4(weights: Tensor) -> Tensor:
    """Return the weights rounded to NF4: sixteen values, times the largest absolute value in each block of 64."""
    import torch

    from trainables.models.nf4 import CODES, blocks_of, nf4_codes

    blocks = blocks_of(weights).float()
    codes = torch.tensor(CODES, device=weights.device)
    rounded = codes[nf4_codes(blocks)] * blocks.abs().amax(dim=1, keepdim=True)
    return rounded.flatten()[: weights.numel()].view_as(weights).to(weights.dtype)


def int8(weights: Tensor) -> Tensor:
    """Return the weights rounded to the nearest of 255 values per row: multiples of a row's largest value / 127."""
    import torch

    rows = weights.detach().flatten(1).float()
    steps = rows.abs().amax(dim=1, keepdim=True) / 127.0
    rounded = torch.round(rows / torch.where(steps > 0.0, steps, 1.0)) * steps
    return rounded.view_as(weights).to(weights.dtype)


def _run(scores: Scores) -> dict[str, float]:
    import torch

    from trainables.models.weight_changes import quantised_weights

    values: dict[str, float] = {}
    for ending, rounded in (("int8", int8), ("nf4", nf4)):
        with editable(scores.model) as model:
            with torch.no_grad():
                for weights in quantised_weights(model):
                    weights.copy_(rounded(weights))
            values |= measured_after(scores, model, ending, attacked=ATTACK.attacked)
    return values


ATTACK = Attack(
    name="quantize",
    formula="round all matrices except embeddings and the head: to int8 (one scale per row), and to NF4 (sixteen "
    "values, one scale per block of 64 weights); computation stays in float32",
    citation="Zhang et al., Catastrophic Failure of LLM Unlearning via Quantization, ICLR 2025 (arXiv:2410.16454); "
    "8 and 4 bits compared: arXiv:2605.02196; NF4: Dettmers et al., QLoRA, NeurIPS 2023 (arXiv:2305.14314)",
    cost="generation of the forget and retain answers, twice",
    effort=Effort(forget_losses=2.0, retain_losses=2.0, forget_answers=2.0, retain_answers=2.0),
    endings={"int8": "after rounding the weights to 8 bits", "nf4": "after rounding the weights to 4 bits (NF4)"},
    attacked=(*FACTS, *KEPT, *ACCURACIES),
    sets=("default",),
    run=_run,
)
