"""The interface of a forget objective: a loss on the forget batch, which training minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from search_spaces.common.fields import Field

if TYPE_CHECKING:
    from torch import Tensor


Options = Mapping[str, float]
"""The value of every option of the objective, by name."""


class Reference(StrEnum):
    """What a forget objective needs in addition to the model's outputs on the forget batch."""

    NONE = "none"
    SEQUENCE_NLL = "sequence nll"
    """The summed negative log-likelihood (NLL) of each forget sequence, computed before training."""
    PAIR_NLL = "pair nll"
    """The summed NLL of each forget sequence and of each refusal, computed before training."""
    ALTERNATE_NLL = "alternate nll"
    """The summed NLL of each forget sequence and of other answers to its question, which the target generates."""
    REFUSAL_TOKENS = "refusal tokens"
    """The tokens of a fixed refusal. The target is not needed."""
    LOGITS = "logits"
    """The target's logits on the forget batch, computed in every step."""
    HIDDEN = "hidden"
    """The target's hidden states on the retain batch, computed in every step."""

    @property
    def has_preferred_answers(self) -> bool:
        """Whether the objective compares the answers to forget with preferred answers: refusals or alternates."""
        return self in (Reference.PAIR_NLL, Reference.ALTERNATE_NLL)


class MeanOver(StrEnum):
    """What the loss of a batch is averaged over: tokens, sequences or positions.

    If a batch is split into micro-batches, the loss of each micro-batch is weighted by its share of the batch's tokens,
    sequences or positions.
    """

    TOKENS = "supervised tokens"
    SEQUENCES = "sequences"
    POSITIONS = "positions that are not padding"


@dataclass(frozen=True, slots=True)
class ForgetBatch:
    """A forget batch after the forward pass.

    Attributes:
        logits: ``(B, S, V)``, the model's logits. Position 0 is the first position that is supervised in at least one
            sequence.
        labels: ``(B, S)``, the true next tokens; -100 at positions that are not supervised.
        token_nll: ``(B, S)`` float32, ``-log p`` of each label; 0 at positions that are not supervised.
        supervised: ``(B, S)`` bool, True for answer tokens and EOS.
        reference_nll: ``(B,)``, the target's summed NLL of each sequence; None if the objective does not need it.
        preferred_nll: ``(B,)``, the model's summed NLL of the preferred answer to each question, which is a refusal for
            ``Reference.PAIR_NLL``, and an alternate answer for ``Reference.ALTERNATE_NLL``; None for other references.
        preferred_probability: ``(B,)``, the mean over the same answer's tokens of the model's probability.
        reference_preferred_nll: ``(B,)``, the target's summed NLL of the same answers.
        reference_logits: ``(B, S, V)``, the target's logits; only for ``Reference.LOGITS``.
        refusal_tokens: ``(B, S)``, the tokens of a refusal, repeated over the supervised positions of each sequence;
            only for ``Reference.REFUSAL_TOKENS``.
    """

    logits: Tensor
    labels: Tensor
    token_nll: Tensor
    supervised: Tensor
    reference_nll: Tensor | None
    preferred_nll: Tensor | None = None
    reference_preferred_nll: Tensor | None = None
    reference_logits: Tensor | None = None
    refusal_tokens: Tensor | None = None
    preferred_probability: Tensor | None = None


@dataclass(frozen=True, slots=True)
class HiddenBatch:
    """The model's hidden states on a forget batch.

    Attributes:
        hidden: ``(B, T, d)``, the output of one decoder block.
        present: ``(B, T)`` bool, True for tokens of question and answer, False for padding.
        direction: ``(d,)``, a random unit vector, constant during a run.
    """

    hidden: Tensor
    present: Tensor
    direction: Tensor


@dataclass(frozen=True, slots=True)
class ForgetObjective:
    """A forget objective in the registry.

    Attributes:
        loss: function from a :class:`ForgetBatch` and the options to the scalar to minimise; None for an objective on
            hidden states.
        hidden_loss: function from a :class:`HiddenBatch` and the options to the scalar to minimise; None for an
            objective on logits.
        weighting: the name of the default weighting.
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
    """Convert a tensor to float32. A float64 tensor is not changed."""
    import torch

    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
