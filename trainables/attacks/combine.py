"""Ask a retain question and a forget question in one prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.attacks.attack import Attack, Effort, column
from trainables.metrics.metric import QUESTIONS

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores


def _run(scores: ModelScores) -> dict[str, float]:
    from trainables.data.examples import Example
    from trainables.metrics.fact_recall import fact_recall, mean_recall

    evaluator, scorer = scores.evaluator, scores.evaluator.scorer
    forget, retain = evaluator.questions["forget"], evaluator.questions["retain"]
    pairs = [(index, index % len(retain.questions)) for index in range(len(forget.questions))]
    examples = [
        Example(
            f"{retain.questions[kept]} {forget.questions[forgotten]}",
            f"{retain.references[kept]} {forget.references[forgotten]}",
        )
        for forgotten, kept in pairs
    ]
    sequences = scorer.encode(examples)
    limit = max(retain.limits) + max(forget.limits)
    texts = scorer.greedy_answers(
        scores.model, sequences, scorer.nll(scores.model, sequences), limits=[limit] * len(sequences)
    )
    told = {
        "forget_fact_recall": [evaluator.facts["forget"][forgotten] for forgotten, _ in pairs],
        "retain_fact_recall": [evaluator.facts["retain"][kept] for _, kept in pairs],
    }
    return {column(name, "combine"): float(mean_recall(fact_recall(facts, texts))) for name, facts in told.items()}


ATTACK = Attack(
    name="combine",
    formula="ask a retain question and then a forget question in one prompt, and count the key facts of either answer "
    "in the greedy answer",
    citation="Hu et al., BLUR: A Benchmark for LLM Unlearning Robust to Forget-Retain Overlap, 2025 (arXiv:2506.15699)",
    cost="generation of an answer to each forget question",
    effort=Effort(forget_losses=2.0, forget_answers=4.0),
    endings={"combine": "asked together with a retain question"},
    attacked=("forget_fact_recall", "retain_fact_recall"),
    needs=(QUESTIONS,),
    sets=("default",),
    run=_run,
)
