"""AltPO: prefer another plausible answer over the answer to forget, relative to the target model."""

from __future__ import annotations

from trainables.objectives.base import ForgetObjective, MeanOver, Reference
from trainables.objectives.dpo import OBJECTIVE as DPO

OBJECTIVE = ForgetObjective(
    name="altpo",
    formula="dpo with alternate answers instead of refusals: before training, the target is asked for five other "
    "versions of each answer; each pass over the forget set uses the next version",
    loss=DPO.loss,
    citation="Mekala et al., Alternate Preference Optimization for Unlearning Factual Knowledge in Large Language "
    "Models, COLING 2025 (arXiv:2409.13474)",
    reference=Reference.ALTERNATE_NLL,
    mean_over=MeanOver.SEQUENCES,
    options=DPO.options,
    weighting="gdiff",  # the published method has a retain term
)
