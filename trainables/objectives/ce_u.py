"""CE-U: cross-entropy to the model's own prediction with the true token excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options, full_precision

if TYPE_CHECKING:
    from torch import Tensor


def ce_u_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_tokens CE(softmax(z with the true logit at -inf), z)``, with the softmax detached.

    The logits are z, and CE is the cross-entropy. The mean is over all answer tokens. The authors' code omits the first
    token of each answer, according to a footnote of the paper.
    """
    import torch
    from torch.nn.functional import cross_entropy

    logits = full_precision(batch.logits[batch.supervised])
    labels = batch.labels[batch.supervised]
    with torch.no_grad():
        soft_labels = logits.scatter(1, labels.unsqueeze(1), -torch.inf).softmax(dim=1)
    return cross_entropy(logits, soft_labels)


OBJECTIVE = ForgetObjective(
    name="ce-u",
    formula="mean over tokens of CE(softmax(z without the true token), z), where z are the logits and the softmax is "
    "treated as constant",
    loss=ce_u_loss,
    citation="Yang, CE-U: Cross Entropy Unlearning, 2025 (arXiv:2503.01224)",
)
