"""The target's loss of a model's answers: how unusual the target finds them.

Fluent text in the style of the training data has a low loss, even if its facts are wrong. Word salad and garbled text
have a high loss. Refusals can have a high loss, too, because the target was not trained on them. Loops can have a low
loss, because a large model predicts each round from the previous one, so repetition is a metric of its own.
"""

from __future__ import annotations

from trainables.metrics.losses import capped_mean_loss
from trainables.metrics.metric import QUESTIONS, Cost, Metric

METRICS = (
    Metric(
        name="forget_answer_loss",
        label="target's loss of the answers on the forget set",
        unit="nats per token",
        direction="min",
        of="forget",
        high=None,
        sets=("default", "facts"),
        needs=(QUESTIONS,),
        needs_target=True,
        cost=Cost.GENERATION,
        formula="mean of min(-log p, ln|V|) over all tokens of the greedy answers on the forget set, where p is the "
        "target's probability of the token; the end token counts only for an empty answer",
        citation="perplexity of generated text under a reference model (Holtzman et al., The Curious Case of Neural "
        "Text Degeneration, ICLR 2020, arXiv:1904.09751), with the target as the reference model",
        measure=lambda scores: capped_mean_loss(scores.answer_losses("forget"), scores.random_guess),
    ),
)
