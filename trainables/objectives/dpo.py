"""DPO: prefer a refusal ("I don't know") over the answer to forget, relative to the target model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LOG, Field
from trainables.objectives.base import ForgetBatch, ForgetObjective, MeanOver, Options, Reference

if TYPE_CHECKING:
    from torch import Tensor


def dpo_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_i -(2/beta) log sigmoid(beta (D_preferred - D_forget))`` with ``D = NLL_ref - NLL``.

    NLL is summed over each sequence, and NLL_ref is the target's NLL. For ``dpo``, the preferred answer is a refusal.
    TOFU calls this objective DPO; other papers call it idk-DPO. The factor 2 is that of NPO: without the preferred
    answers, the loss is NPO's loss. At the target, the loss is ``2 log 2 / beta``.
    """
    from torch.nn.functional import logsigmoid

    assert batch.reference_nll is not None, "the objective declares a reference with preferred answers"
    assert batch.preferred_nll is not None, "the objective declares a reference with preferred answers"
    assert batch.reference_preferred_nll is not None, "the objective declares a reference with preferred answers"
    beta = options["beta"]
    d_preferred = batch.reference_preferred_nll - batch.preferred_nll
    d_forget = batch.reference_nll - batch.token_nll.sum(dim=1)
    return -(2.0 / beta) * logsigmoid(beta * (d_preferred - d_forget)).mean()


OBJECTIVE = ForgetObjective(
    name="dpo",
    formula="-(2/beta) mean log sigmoid(beta (D_refusal - D_forget)), where D = NLL_ref - NLL of an answer, NLL_ref is "
    "the target's NLL, and the refusal is 'I don't know' or similar",
    loss=dpo_loss,
    citation="Rafailov et al., Direct Preference Optimization, NeurIPS 2023 (arXiv:2305.18290); refusals as in Maini "
    "et al., TOFU, COLM 2024 (arXiv:2401.06121)",
    reference=Reference.PAIR_NLL,
    mean_over=MeanOver.SEQUENCES,
    options=(
        Field("beta", 0.1, "inverse temperature of the preference", above=0.0, high=100.0).searched(
            0.01, 1.0, LOG, "the range of npo.beta, because DPO is NPO with a preferred answer"
        ),
    ),
)
