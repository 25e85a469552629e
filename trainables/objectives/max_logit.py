"""Max-logit: flatten the logits, by the distance of the largest logit from the mean logit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options, full_precision

if TYPE_CHECKING:
    from torch import Tensor


def max_logit_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_tokens (max(z) - mean(z))^2`` over answer tokens, with the model's logits z.

    The loss is 0 at the uniform prediction, does not depend on the true token, and its gradient does not vanish for
    certain predictions. PDU minimises the loss under a constraint on the retain loss (``max-logit+dual``). The authors'
    code (github.com/locuslab/open-unlearning, MIT) averages over the positions of the answer's own tokens, one position
    to the right of the predictions of these tokens.
    """
    logits = full_precision(batch.logits[batch.supervised])
    return (logits.amax(dim=1) - logits.mean(dim=1)).square().mean()


OBJECTIVE = ForgetObjective(
    name="max-logit",
    formula="mean over tokens of (max(z) - mean(z))^2, where z are the logits",
    loss=max_logit_loss,
    citation="Entesari et al., Constrained Entropic Unlearning: A Primal-Dual Framework for Large Language Models, "
    "NeurIPS 2025 (arXiv:2506.05314)",
    weighting="dual",  # as published
)
