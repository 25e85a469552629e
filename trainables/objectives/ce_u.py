"""CE-U: cross-entropy to the model's own prediction with the true token excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options, full_precision

if TYPE_CHECKING:
    from torch import Tensor


def ce_u_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_tokens CE(softmax(z with the true logit at -inf), z)``, with the softmax detached.

    Here z are the logits and CE is the cross-entropy. The loss is at least 0. The mean is over all answer tokens. By
    default, the authors' code omits each answer's first token, as a footnote of the paper says.
    """
    import torch
    from torch.nn.functional import cross_entropy

    logits = full_precision(batch.logits[batch.supervised])
    labels = batch.labels[batch.supervised]
    with torch.no_grad():
        soft = logits.scatter(1, labels.unsqueeze(1), -torch.inf).softmax(dim=1)
    return cross_entropy(logits, soft)


OBJECTIVE = ForgetObjective(
    name="ce-u",
    formula="mean CE(softmax(z without the true token), z), softmax detached",
    loss=ce_u_loss,
    citation="Yang, CE-U: Cross Entropy Unlearning, 2025 (arXiv:2503.01224)",
)
