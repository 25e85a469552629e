"""WGA: gradient ascent with each token weighted by a power of its probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, Options
from trainables.predictions import mean_loss

if TYPE_CHECKING:
    from torch import Tensor


def wga_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``-mean_tokens p^beta CE``, where the token's probability p is detached."""
    weights = (-options["beta"] * batch.token_nll.detach()).exp()
    return -mean_loss(weights * batch.token_nll, batch.supervised)


OBJECTIVE = ForgetObjective(
    name="wga",
    formula="-mean(p^beta CE) over tokens, where p is the token's probability, treated as constant",
    loss=wga_loss,
    citation="Wang et al., Rethinking LLM Unlearning Objectives: A Gradient Perspective and Go Beyond, ICLR 2025 "
    "(arXiv:2502.19301)",
    options=(
        Field("beta", 1.0, "exponent of the token's probability", low=0.0, high=100.0).searched(
            0.1, 5.0, LOG, "OpenUnlearning's default is 1; 0 would be gradient ascent"
        ),
    ),
)
