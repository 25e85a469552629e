"""JensUn: bring the model's prediction close to a refusal, measured by the Jensen-Shannon divergence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options, Reference, full_precision

if TYPE_CHECKING:
    from torch import Tensor

REFUSAL = "No idea"


def jensun_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_tokens JS(p, onehot(r))``, in nats.

    The model's prediction at a position of the answer is p. The tokens r are those of ``REFUSAL``, repeated over the
    positions of the answer and of EOS. With ``p_r``, the probability of r, the divergence is

        JS = log 2 + (p_r log p_r - (1 + p_r) log(1 + p_r))/2.

    It is at most log 2, and its gradient vanishes as ``p_r`` approaches 0. The published method minimises the sum of
    this loss and of the Jensen-Shannon divergence from the target on the retain set, which is ``--retain-objective js``
    with equal weights. The authors' code (github.com/nmndeep/JensUn-Unlearning, no licence) clips probabilities at
    1e-9; this function was written from the paper and does not.
    """
    assert batch.refusal_tokens is not None, "jensun declares Reference.REFUSAL_TOKENS"
    logits = full_precision(batch.logits[batch.supervised])
    tokens = batch.refusal_tokens[batch.supervised].unsqueeze(1)
    log_p = logits.gather(1, tokens).squeeze(1) - logits.logsumexp(dim=1)
    p = log_p.exp()
    return math.log(2.0) + (p * log_p - (1.0 + p) * p.log1p()).mean() / 2.0


OBJECTIVE = ForgetObjective(
    name="jensun",
    formula="mean over tokens of JS(p, onehot(token of the refusal 'No idea')), where p is the prediction and JS the "
    "Jensen-Shannon divergence",
    loss=jensun_loss,
    citation="Singh et al., Unlearning That Lasts: Utility-Preserving, Robust, and Almost Irreversible Forgetting in "
    "LLMs, 2025 (arXiv:2509.02820)",
    reference=Reference.REFUSAL_TOKENS,
    weighting="gdiff",  # the published method has a retain term
)
