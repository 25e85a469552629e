"""UNDIAL: distil the target's prediction after lowering the logit of the true token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, Options, Reference, full_precision

if TYPE_CHECKING:
    from torch import Tensor


def undial_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_tokens CE(softmax(z_ref - beta onehot(label)), z)`` over answer tokens.

    The model's logits are z, and the target's logits are z_ref. No gradient flows through the softmax. The authors'
    code also averages over prompt and padding tokens.
    """
    import torch
    from torch.nn.functional import cross_entropy

    assert batch.reference_logits is not None, "undial declares Reference.LOGITS"
    logits = full_precision(batch.logits[batch.supervised])
    labels = batch.labels[batch.supervised].unsqueeze(1)
    with torch.no_grad():
        soft_labels = _soft_labels(full_precision(batch.reference_logits[batch.supervised]), labels, options["beta"])
    return cross_entropy(logits, soft_labels)


def _soft_labels(reference_logits: Tensor, labels: Tensor, beta: float) -> Tensor:
    """Return ``softmax(z_ref - beta onehot(label))`` per token."""
    lowered = reference_logits.gather(1, labels) - beta
    return reference_logits.scatter(1, labels, lowered).softmax(dim=1)


OBJECTIVE = ForgetObjective(
    name="undial",
    formula="mean over tokens of CE(softmax(z_ref - beta onehot(true token)), z), where z are the logits, and z_ref "
    "the target's logits",
    loss=undial_loss,
    citation="Dong et al., UNDIAL: Self-Distillation with Adjusted Logits for Robust Unlearning in Large Language "
    "Models, NAACL 2025 (arXiv:2402.10052)",
    reference=Reference.LOGITS,
    options=(
        Field("beta", 10.0, "amount by which the true token's logit is lowered", above=0.0, high=1000.0).searched(
            1.0, 30.0, LOG, "UNDIAL (arXiv:2402.10052) uses 3, 10 and 30"
        ),
    ),
)
