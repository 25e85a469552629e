"""SatImp: gradient ascent with tokens weighted by saturation and importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, Options
from trainables.predictions import mean_loss

if TYPE_CHECKING:
    from torch import Tensor


def satimp_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``-mean_tokens p^beta1 (1 - p)^beta2 CE``, where the token's probability p is detached."""
    nll = batch.token_nll.detach()
    # Unlike 1 - exp(-nll), expm1 computes 1 - p precisely for tokens with p near 1.
    weights = (-options["beta1"] * nll).exp() * (-(-nll).expm1()).pow(options["beta2"])
    return -mean_loss(weights * batch.token_nll, batch.supervised)


OBJECTIVE = ForgetObjective(
    name="satimp",
    formula="-mean(p^beta1 (1-p)^beta2 CE), p detached (token mean)",
    loss=satimp_loss,
    citation="Yang et al., Exploring Criteria of Loss Reweighting to Enhance LLM Unlearning, ICML 2025 "
    "(arXiv:2505.11953)",
    options=(
        Field("beta1", 5.0, "power of p: how fast the weight of forgotten tokens falls", low=0.0, high=100.0).searched(
            0.3, 10.0, LOG, "SatImp (arXiv:2505.11953): 0.3 or 5 in the released configurations"
        ),
        Field("beta2", 1.0, "power of 1 - p: how low the weight of probable tokens is", low=0.0, high=100.0).searched(
            0.1, 3.0, LOG, "SatImp (arXiv:2505.11953): 0.3 or 1 in the released configurations"
        ),
    ),
)
