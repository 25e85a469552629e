"""Gradient ascent: minimise the negative mean cross-entropy per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, Options
from trainables.predictions import mean_loss

if TYPE_CHECKING:
    from torch import Tensor


def ascent_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``-CE_F``: minus the mean cross-entropy over the supervised tokens. The loss is unbounded below."""
    return -mean_loss(batch.token_nll, batch.supervised)


OBJECTIVE = ForgetObjective(
    name="ascent",
    formula="-CE_F, where CE_F is the mean cross-entropy per answer token of the forget batch",
    loss=ascent_loss,
    citation="Jang et al., Knowledge Unlearning for Mitigating Privacy Risks in Language Models, ACL 2023",
)
