"""The divergence of a model from the target on the retain set."""

from __future__ import annotations

from trainables.metrics.metric import Cost, Metric

METRICS = (
    Metric(
        name="retain_kl",
        label="divergence from the target on the retain set",
        unit="nats per token",
        direction="min",
        of="retain",
        high=None,
        sets=("default", "facts"),
        needs_target=True,
        usable={"tie_breaker": True},
        cost=Cost.FORWARD,
        formula="mean of min(KL(p || q), ln|V|) over all answer tokens of the examples of the retain loss, where p is "
        "the target's and q the model's distribution of the next token; for more than 4096 tokens, all but the "
        "target's 256 most probable tokens count as one, which lowers the value",
        citation="RepSelect (arXiv:2606.17168), which compares methods at a divergence of at most 0.01; Kullback and "
        "Leibler, On Information and Sufficiency, 1951",
        measure=lambda scores: scores.retain_kl,
    ),
)
