"""RMU: move the hidden states of forget sequences towards one random vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetObjective, HiddenBatch, MeanOver, Options, Reference, full_precision

if TYPE_CHECKING:
    from torch import Tensor

AUTOMATIC = -1
_PUBLISHED_LAYER = 7


def rmu_loss(batch: HiddenBatch, options: Options) -> Tensor:
    """Return ``mean_tokens |h - s u|^2`` over all tokens of question and answer.

    The hidden state is h, the option ``scale`` is s, and the unit vector is u. The squared norm is a sum over the
    hidden width, as in the paper's formula. The released code divides the sum and the retain objective by the width.
    The paper trains three matrices; this project trains all parameters up to the block whose output is h.
    """
    scaled_direction = (options["scale"] * batch.direction).to(batch.hidden.device)
    gap = full_precision(batch.hidden[batch.present]) - scaled_direction
    return gap.square().sum(dim=1).mean()


def layer_problem(layer: float, *, depth: int) -> str | None:
    """Return a message if a model with ``depth`` decoder blocks has no block ``layer``; otherwise None."""
    if layer == AUTOMATIC or 0 <= layer < depth:
        return None
    return f"layer must be from 0 to {depth - 1} in a model of {depth} decoder blocks, got {layer:g}"


def layer_index(layer: float, *, depth: int) -> int:
    """Return the index of the decoder block whose output is used, counted from 0.

    ``AUTOMATIC`` selects the published block 7, or the block at a third of the depth if its index is lower.

    Raises:
        ValueError: the model does not have this block.
    """
    if problem := layer_problem(layer, depth=depth):
        raise ValueError(problem)
    return min(_PUBLISHED_LAYER, depth // 3) if layer == AUTOMATIC else int(layer)


OBJECTIVE = ForgetObjective(
    name="rmu",
    formula="mean |h_F - s u|^2 over all tokens, where h_F is a hidden state and u a random unit vector; retain "
    "objective: mean |h_R - h_ref|^2, where h_ref is the target's hidden state",
    hidden_loss=rmu_loss,
    citation="Li et al., The WMDP Benchmark: Measuring and Reducing Malicious Use With Unlearning, ICML 2024 "
    "(arXiv:2403.03218)",
    reference=Reference.HIDDEN,
    mean_over=MeanOver.POSITIONS,
    options=(
        Field(
            "scale",
            20.0,
            "s, the norm to which hidden states of forget sequences are moved",
            above=0.0,
            high=1e4,
        ).searched(
            1.0, 300.0, LOG, "RMU (arXiv:2403.03218) uses 6.5 to 300, depending on the norm of the hidden states"
        ),
        Field(
            "layer",
            AUTOMATIC,
            "index of the decoder block, counted from 0; -1 selects block 7, or the block at a third of the depth if "
            "its index is lower",
            low=AUTOMATIC,
            high=1000.0,
            kind=int,
        ),
    ),
    weighting="gdiff",  # a retain term preserves the hidden states on other data
)
