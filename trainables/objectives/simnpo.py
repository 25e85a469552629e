"""SimNPO: NPO with a length-normalised likelihood instead of a reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LINEAR, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, MeanOver, Options

if TYPE_CHECKING:
    from torch import Tensor


def simnpo_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_i -(2/beta) log sigmoid(beta (NLL_i / length_i - delta))``; ``beta delta`` is the paper's gamma."""
    from torch.nn.functional import logsigmoid

    beta, delta = options["beta"], options["delta"]
    nll = batch.token_nll.sum(dim=1)
    length = batch.supervised.sum(dim=1)
    return -(2.0 / beta) * logsigmoid(beta * (nll / length - delta)).mean()


OBJECTIVE = ForgetObjective(
    name="simnpo",
    formula="-(2/beta) mean log sigmoid(beta (NLL/length - delta)), where NLL is summed over an answer, and length is "
    "its number of tokens",
    loss=simnpo_loss,
    citation="Fan et al., Simplicity Prevails: Rethinking Negative Preference Optimization for LLM Unlearning, 2024 "
    "(arXiv:2410.07163)",
    mean_over=MeanOver.SEQUENCES,
    options=(
        Field("beta", 4.5, "inverse temperature of the preference", above=0.0, high=1000.0).searched(
            2.5, 5.5, LINEAR, "SimNPO (arXiv:2410.07163) uses 2.5 or 4.5 on TOFU, and 5.5 on WMDP"
        ),
        Field("delta", 0.0, "forget loss per token at which the gradient is halved", low=0.0, high=100.0).searched(
            0.0,
            2.0,
            LINEAR,
            "the ratio gamma / beta of SimNPO, in nats per token; 0 in its published models",
        ),
    ),
)
