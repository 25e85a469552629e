"""Gradient ascent: minimise the negated token-mean cross-entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options
from trainables.predictions import mean_loss

if TYPE_CHECKING:
    from torch import Tensor


def ascent_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """``-CE_F``, the negated mean over all supervised tokens of the batch; unbounded below."""
    return -mean_loss(batch.token_nll, batch.supervised)


OBJECTIVE = ForgetObjective(
    name="ascent",
    formula="-CE_F (token mean)",
    loss=ascent_loss,
    citation="Jang et al., Knowledge Unlearning for Mitigating Privacy Risks in Language Models, ACL 2023",
)
