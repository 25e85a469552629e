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
"""A value for every option that the objective declares."""


class Reference(StrEnum):
    """The values of the target model that an objective needs, precomputed if the maths allows."""

    NONE = "none"
    SEQUENCE_NLL = "sequence nll"
    """The target's summed negative log-likelihood of each forget sequence, precomputed."""
    PAIR_NLL = "pair nll"
    """The same, and the target's NLL of each forget question with its refusal, also precomputed."""
    LOGITS = "logits"
    """The target's logits on the forget batch; too large to store, so the frozen target runs in every step."""
    HIDDEN = "hidden"
    """Hidden states instead of logits, of the model on the forget batch, and of model and target on the retain batch;
    the frozen target runs in every step."""

    @property
    def is_frozen_forward(self) -> bool:
        """Whether the frozen target runs in every step, instead of using precomputed values."""
        return self in (Reference.LOGITS, Reference.HIDDEN)


class MeanOver(StrEnum):
    """The units that a batch's loss is averaged over; each part of a batch is weighted by its share of them."""

    TOKENS = "supervised tokens"
    SEQUENCES = "sequences"
    POSITIONS = "positions that are not padding"


@dataclass(frozen=True, slots=True)
class ForgetBatch:
    """A forget batch after the forward pass.

    Attributes:
        logits: ``(B, S, V)`` of the positions that predict an answer token (and some of longer prompts).
        labels: ``(B, S)`` the true next token of each position, -100 if not supervised.
        token_nll: ``(B, S)`` float32, ``-log p`` of each next token, 0 if not supervised.
        supervised: ``(B, S)`` bool, True on answer tokens and EOS.
        reference_nll: ``(B,)`` the target's summed NLL per sequence, if the objective needs it.
        refusal_nll: ``(B,)`` the model's summed NLL of each question's refusal, with ``Reference.PAIR_NLL``.
        reference_refusal_nll: ``(B,)`` the target's summed NLL of each refusal.
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
    """The hidden states of a forget batch after the forward pass, for objectives with ``Reference.HIDDEN``.

    Attributes:
        hidden: ``(B, T, d)`` the output of one decoder block.
        present: ``(B, T)`` bool, True on every token that is not padding, including the question's.
        direction: ``(d,)`` a unit vector, constant during a run.
    """

    hidden: Tensor
    present: Tensor
    direction: Tensor


@dataclass(frozen=True, slots=True)
class ForgetObjective:
    """One forget objective in the registry; ``loss`` returns a scalar to minimise.

    Objectives on hidden states have ``hidden_loss`` instead of ``loss``, and their own retain objective, the distance
    of hidden states to the target's. ``weighting`` is the default weighting of the objective.
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
    """Return the tensor in at least float32."""
    import torch

    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
