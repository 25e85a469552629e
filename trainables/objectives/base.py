"""The interface of a forget objective: a loss to *minimise* on the forget batch, computed from the model's outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from search_spaces.fields import Field

if TYPE_CHECKING:
    from torch import Tensor


Options = Mapping[str, float]
"""The value of every option that the objective declares, by name."""


class Reference(StrEnum):
    """The target's outputs that an objective needs. Outputs that are small enough to store are precomputed."""

    NONE = "none"
    SEQUENCE_NLL = "sequence nll"
    """The target's summed negative log-likelihood (NLL) of each forget sequence, precomputed."""
    PAIR_NLL = "pair nll"
    """The target's summed NLL of each forget sequence and of each forget question's refusal, precomputed."""
    LOGITS = "logits"
    """The target's logits on the forget batch. They are too large to store, so the frozen target runs in every step.
    """
    HIDDEN = "hidden"
    """Hidden states of the model on the forget batch, and of the model and the target on the retain batch. The frozen
    target runs in every step."""


class MeanOver(StrEnum):
    """What a batch's loss is averaged over: tokens, sequences or positions. If a batch is split, each part is weighted
    by the part's share of the batch's tokens, sequences or positions.
    """

    TOKENS = "supervised tokens"
    SEQUENCES = "sequences"
    POSITIONS = "positions that are not padding"


@dataclass(frozen=True, slots=True)
class ForgetBatch:
    """A forget batch after the forward pass.

    Attributes:
        logits: ``(B, S, V)`` the logits of the positions that predict an answer token. Rows whose prompt is not the
            shortest also have the logits of some prompt positions.
        labels: ``(B, S)`` the true next token of each position; -100 at positions that are not supervised.
        token_nll: ``(B, S)`` float32, ``-log p`` of each next token; 0 at positions that are not supervised.
        supervised: ``(B, S)`` bool, True for answer tokens and EOS.
        reference_nll: ``(B,)`` the target's summed NLL of each sequence; None if the objective does not need it.
        refusal_nll: ``(B,)`` the model's summed NLL of each question's refusal; only for ``Reference.PAIR_NLL``.
        reference_refusal_nll: ``(B,)`` the target's summed NLL of each refusal; only for ``Reference.PAIR_NLL``.
        reference_logits: ``(B, S, V)`` the target's logits; only for ``Reference.LOGITS``.
    """

    logits: Tensor
    labels: Tensor
    token_nll: Tensor
    supervised: Tensor
    reference_nll: Tensor | None
    refusal_nll: Tensor | None = None
    reference_refusal_nll: Tensor | None = None
    reference_logits: Tensor | None = None


@dataclass(frozen=True, slots=True)
class HiddenBatch:
    """The hidden states of a forget batch after the forward pass, for objectives with ``Reference.HIDDEN``.

    Attributes:
        hidden: ``(B, T, d)`` the output of one decoder block.
        present: ``(B, T)`` bool, True for every token that is not padding, including the question's tokens.
        direction: ``(d,)`` a unit vector, constant during a run.
    """

    hidden: Tensor
    present: Tensor
    direction: Tensor


@dataclass(frozen=True, slots=True)
class ForgetObjective:
    """One forget objective in the registry. ``loss`` returns a scalar to minimise.

    Objectives on hidden states have ``hidden_loss`` instead of ``loss``. For these objectives, the retain objective is
    the distance between the hidden states of the model and of the target. ``weighting`` is the default weighting of the
    objective.
    """

    name: str
    formula: str
    citation: str
    loss: Callable[[ForgetBatch, Options], Tensor] | None = None
    hidden_loss: Callable[[HiddenBatch, Options], Tensor] | None = None
    reference: Reference = Reference.NONE
    mean_over: MeanOver = MeanOver.TOKENS
    options: tuple[Field, ...] = ()
    weighting: str = "ga"


def full_precision(tensor: Tensor) -> Tensor:
    """Convert a tensor to float32, unless its type is more precise."""
    import torch

    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
