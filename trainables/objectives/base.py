"""What a forget objective is: a loss to *minimise* on the forget batch, made from the model's own outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from search_spaces.fields import Field

if TYPE_CHECKING:
    from torch import Tensor


Options = Mapping[str, float]
"""A value for every option that the objective declares."""


class Reference(StrEnum):
    """What an objective needs of the target model: values precomputed once, wherever the maths allows."""

    NONE = "none"
    SEQUENCE_NLL = "sequence nll"
    """The target's summed negative log-likelihood of each forget sequence, precomputed."""
    PAIR_NLL = "pair nll"
    """The same, and that of each forget question with its refusal, precomputed, too."""
    LOGITS = "logits"
    """The target's logits on the forget batch: too large to store, so a forward pass of the frozen target per step."""
    HIDDEN = "hidden"
    """Hidden states in place of logits, of the model on the forget batch and of model and target on the retain batch:
    a forward pass of the frozen target per step."""

    @property
    def is_frozen_forward(self) -> bool:
        """Whether the frozen target is run in every step, rather than values of it looked up."""
        return self in (Reference.LOGITS, Reference.HIDDEN)


class MeanOver(StrEnum):
    """What the loss of a batch is a mean over: so a batch's loss is that of its parts, each by its share of these."""

    TOKENS = "supervised tokens"
    SEQUENCES = "sequences"
    POSITIONS = "positions that are not padding"


@dataclass(frozen=True, slots=True)
class ForgetBatch:
    """A forget batch after the forward pass.

    Attributes:
        logits: ``(B, S, V)`` of the positions that predict an answer token (and a few of longer prompts).
        labels: ``(B, S)`` the token each position should predict, -100 where not supervised.
        token_nll: ``(B, S)`` float32, ``-log p`` of each next token, 0 where not supervised.
        supervised: ``(B, S)`` bool, True on answer tokens and EOS.
        reference_nll: ``(B,)`` the target's summed NLL per sequence, when the objective asks for it.
        refusal_nll: ``(B,)`` the model's summed NLL of each question's refusal, with ``Reference.PAIR_NLL``.
        reference_refusal_nll: ``(B,)`` the target's.
        reference_logits: ``(B, S, V)`` the target's logits, with ``Reference.LOGITS``.
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
    """A forget batch after the forward pass, seen inside the model: what ``Reference.HIDDEN`` objectives are made from.

    Attributes:
        hidden: ``(B, T, d)`` the output of one decoder block.
        present: ``(B, T)`` bool, True on every token that is not padding, those of the question included.
        direction: ``(d,)`` a unit vector, the same throughout a run.
    """

    hidden: Tensor
    present: Tensor
    direction: Tensor


@dataclass(frozen=True, slots=True)
class ForgetObjective:
    """One forget objective, as an entry of the registry; ``loss`` returns a scalar to minimise.

    Objectives on hidden states have ``hidden_loss`` in place of ``loss``, and bring their own retain objective, the
    distance of hidden states to the target's. ``weighting`` is the one the objective has when named alone.
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
    """The tensor in float32 where it is in less."""
    import torch

    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
