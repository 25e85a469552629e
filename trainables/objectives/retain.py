"""The retain objectives: losses to minimise on the retain batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainables.objectives.base import full_precision

if TYPE_CHECKING:
    from torch import Tensor

RETAIN_OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "ce": "L_R, the mean cross-entropy per token of the retain batch",
        "kl": "KL(target || model), averaged over tokens; each step needs one more forward pass, through the target",
        "js": "the Jensen-Shannon divergence of model and target, averaged over tokens; needs the same pass as kl",
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


def js_to_target(logits: Tensor, reference_logits: Tensor, supervised: Tensor) -> Tensor:
    """Return ``mean_tokens (KL(p || m) + KL(p_ref || m))/2`` with ``m = (p + p_ref)/2``, in nats (0 at the target).

    The retain objective of JensUn (arXiv:2509.02820). The arguments are those of :func:`kl_to_target`.
    """
    log_p = full_precision(logits[supervised]).log_softmax(dim=1)
    log_ref = full_precision(reference_logits[supervised]).log_softmax(dim=1)
    log_m = log_p.logaddexp(log_ref) - math.log(2.0)
    sums = log_p.exp() * (log_p - log_m) + log_ref.exp() * (log_ref - log_m)
    return sums.sum(dim=1).mean() / 2.0


DIVERGENCES: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = MappingProxyType(
    {"kl": kl_to_target, "js": js_to_target}
)
"""The retain objectives that compare the model's logits with those of the target."""


def hidden_distance(hidden: Tensor, reference_hidden: Tensor, present: Tensor) -> Tensor:
    """Return RMU's retain objective, ``mean_tokens |h - h_ref|^2``.

    Args:
        hidden: ``(B, T, d)``, the model's hidden states.
        reference_hidden: ``(B, T, d)``, the target's hidden states.
        present: ``(B, T)`` bool, False for padding.
    """
    gap = full_precision(hidden[present]) - full_precision(reference_hidden[present])
    return gap.square().sum(dim=1).mean()
