"""FLAT: separate the probability of a refusal from the probability of the answer, by the total variation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.objectives.base import ForgetBatch, ForgetObjective, MeanOver, Options, Reference

if TYPE_CHECKING:
    from torch import Tensor


def flat_loss(batch: ForgetBatch, options: Options) -> Tensor:
    """Return ``mean_i (f*(g*(P_forget)) - g*(P_refusal))`` with ``g*(v) = tanh(v)/2`` and ``f*(u) = u``.

    ``P`` is the mean over the answer's tokens of the model's probability of the token. ``g*`` and ``f*`` are those of
    the total variation in the variational form of f-divergences, which is the default of the authors' code
    (github.com/UCSC-REAL/FLAT, Apache-2.0). Their code averages P over the batch first, and over prompt and padding
    tokens, which count as 0.
    """
    assert batch.preferred_probability is not None, "flat declares Reference.PAIR_NLL"
    probabilities = (-batch.token_nll).exp() * batch.supervised
    forget_probability = probabilities.sum(dim=1) / batch.supervised.sum(dim=1)
    return (forget_probability.tanh() - batch.preferred_probability.tanh()).mean() / 2.0


OBJECTIVE = ForgetObjective(
    name="flat",
    formula="mean (tanh(P_forget) - tanh(P_refusal))/2, where P is the mean probability of an answer's tokens, and the "
    "refusal is 'I don't know' or similar",
    loss=flat_loss,
    citation="Wang et al., LLM Unlearning via Loss Adjustment with Only Forget Data, ICLR 2025 (arXiv:2410.11143)",
    reference=Reference.PAIR_NLL,
    mean_over=MeanOver.SEQUENCES,
)
