"""Negative preference optimization: preference optimization that uses only the dispreferred answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, MeanOver, Options, Reference

if TYPE_CHECKING:
    from torch import Tensor


def npo_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_i -(2/beta) log sigmoid(beta (NLL_i - NLL_ref_i))``, with NLL summed per sequence (NPO, Eq. 3).

    NLL_ref is the target's NLL. The loss is at least 0. As beta -> 0, the gradient tends to that of ``-mean_i NLL_i``,
    as in gradient ascent. With ``dtype bf16``, NLL_ref is computed in float32, but NLL has rounding errors. So the loss
    at the target with beta 0.1 was 13.834 instead of 13.863.
    """
    from torch.nn.functional import logsigmoid

    assert batch.reference_nll is not None, "npo declares Reference.SEQUENCE_NLL"
    beta = options["beta"]
    nll = batch.token_nll.sum(dim=1)
    return -(2.0 / beta) * logsigmoid(beta * (nll - batch.reference_nll)).mean()


OBJECTIVE = ForgetObjective(
    name="npo",
    formula="-(2/beta) mean log sigmoid(beta (NLL - NLL_ref)), where NLL is summed over an answer, and NLL_ref is the "
    "target's NLL",
    loss=npo_loss,
    citation="Zhang et al., Negative Preference Optimization: From Catastrophic Collapse to Effective Unlearning, "
    "COLM 2024 (arXiv:2404.05868)",
    reference=Reference.SEQUENCE_NLL,
    mean_over=MeanOver.SEQUENCES,
    options=(
        Field("beta", 0.1, "inverse temperature of the preference", above=0.0, high=100.0).searched(
            0.01, 1.0, LOG, "NPO (arXiv:2404.05868) uses 0.1; the range is from a tenth to ten times this value"
        ),
    ),
)
