"""What a forget objective is: a loss to *minimise* on the forget batch, made from the model's own outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from trainables.options import Option

if TYPE_CHECKING:
    from torch import Tensor


class Reference(StrEnum):
    """What an objective needs of the target model; always values precomputed once, never a second model."""

    NONE = "none"
    SEQUENCE_NLL = "sequence nll"
    """The target's summed negative log-likelihood of each forget sequence."""


@dataclass(frozen=True, slots=True)
class ForgetBatch:
    """A forget batch after the forward pass.

    Attributes:
        logits: ``(B, S, V)`` of the positions that predict an answer token (and a few of longer prompts).
        labels: ``(B, S)`` the token each position should predict, -100 where not supervised.
        token_nll: ``(B, S)`` float32, ``-log p`` of each next token, 0 where not supervised.
        supervised: ``(B, S)`` bool, True on answer tokens and EOS.
        reference_nll: ``(B,)`` the target's summed NLL per sequence, when the objective asks for it.
    """

    logits: Tensor
    labels: Tensor
    token_nll: Tensor
    supervised: Tensor
    reference_nll: Tensor | None


@dataclass(frozen=True, slots=True)
class ForgetObjective:
    """One forget objective, as an entry of the registry; ``loss`` returns a scalar to minimise."""

    name: str
    formula: str
    loss: Callable[[ForgetBatch, Mapping[str, float]], Tensor]
    citation: str
    reference: Reference = Reference.NONE
    options: tuple[Option, ...] = ()
