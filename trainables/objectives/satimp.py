"""SatImp: gradient ascent with tokens weighted by saturation and importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, Options
from trainables.predictions import mean_loss

if TYPE_CHECKING:
    from torch import Tensor


def satimp_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``-mean_tokens p^beta1 (1 - p)^beta2 CE``, where the token's probability p is detached."""
    nll = batch.token_nll.detach()
    p_to_beta1 = (-options["beta1"] * nll).exp()
    # Unlike 1 - exp(-nll), expm1 computes 1 - p precisely for tokens with p near 1.
    one_minus_p = -(-nll).expm1()
    weights = p_to_beta1 * one_minus_p.pow(options["beta2"])
    return -mean_loss(weights * batch.token_nll, batch.supervised)


OBJECTIVE = ForgetObjective(
    name="satimp",
    formula="-mean(p^beta1 (1 - p)^beta2 CE) over tokens, where p is the token's probability, treated as constant",
    loss=satimp_loss,
    citation="Yang et al., Exploring Criteria of Loss Reweighting to Enhance LLM Unlearning, ICML 2025 "
    "(arXiv:2505.11953)",
    options=(
        Field(
            "beta1", 5.0, "exponent of p; a larger value lowers the weight of improbable tokens", low=0.0, high=100.0
        ).searched(0.3, 10.0, LOG, "SatImp (arXiv:2505.11953) uses 0.3 or 5 in its released configurations"),
        Field(
            "beta2", 1.0, "exponent of 1 - p; a larger value lowers the weight of probable tokens", low=0.0, high=100.0
        ).searched(0.1, 3.0, LOG, "SatImp (arXiv:2505.11953) uses 0.3 or 1 in its released configurations"),
    ),
)
