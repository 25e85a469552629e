"""The retain objectives: losses to minimise on the retain batch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainables.objectives.base import full_precision

if TYPE_CHECKING:
    from torch import Tensor

RETAIN_OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "ce": "L_R, the mean cross-entropy per token of the retain batch",
        "kl": "KL(target || model), averaged over tokens; each step needs one more forward pass, through the target",
    }
)
"""The retain objectives by name, with descriptions. RMU uses :func:`hidden_distance` instead."""


def kl_to_target(logits: Tensor, reference_logits: Tensor, supervised: Tensor) -> Tensor:
    """Return ``mean_tokens sum_v p_ref (log p_ref - log p)`` over supervised tokens, in nats (0 at the target).

    Args:
        logits: ``(B, S, V)``, the model's logits.
        reference_logits: ``(B, S, V)``, the target's logits.
        supervised: ``(B, S)`` bool, the tokens to average over.
    """
    log_p = full_precision(logits[supervised]).log_softmax(dim=1)
    log_ref = full_precision(reference_logits[supervised]).log_softmax(dim=1)
    return (log_ref.exp() * (log_ref - log_p)).sum(dim=1).mean()


def hidden_distance(hidden: Tensor, reference_hidden: Tensor, present: Tensor) -> Tensor:
    """Return RMU's retain objective, ``mean_tokens |h - h_ref|^2``.

    Args:
        hidden: ``(B, T, d)``, the model's hidden states.
        reference_hidden: ``(B, T, d)``, the target's hidden states.
        present: ``(B, T)`` bool, False for padding.
    """
    gap = full_precision(hidden[present]) - full_precision(reference_hidden[present])
    return gap.square().sum(dim=1).mean()
