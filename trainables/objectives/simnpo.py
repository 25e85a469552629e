"""SimNPO: NPO without a reference model, by length-normalised likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective
from trainables.options import Option

if TYPE_CHECKING:
    from torch import Tensor


def simnpo_loss(batch: ForgetBatch, options: Mapping[str, float]) -> Tensor:
    """``mean_i -(2/beta) log sigmoid(beta (NLL_i / length_i - delta))``; the paper's margin gamma is ``beta delta``."""
    from torch.nn.functional import logsigmoid

    beta, delta = options["beta"], options["delta"]
    per_token = batch.token_nll.sum(dim=1) / batch.supervised.sum(dim=1)
    return -(2.0 / beta) * logsigmoid(beta * (per_token - delta)).mean()


OBJECTIVE = ForgetObjective(
    name="simnpo",
    formula="-(2/beta) mean log sigmoid(beta (NLL/length - delta))",
    loss=simnpo_loss,
    citation="Fan et al., Simplicity Prevails: Rethinking Negative Preference Optimization for LLM Unlearning, 2024 "
    "(arXiv:2410.07163)",
    options=(
        Option("beta", 4.5, 0.0, 1000.0, "inverse temperature of the preference", low_open=True),
        Option("delta", 0.0, 0.0, 100.0, "forget loss per token at which the pull is halved"),
    ),
)
