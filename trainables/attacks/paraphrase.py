"""Ask the questions in other words than those that were unlearned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.attacks.attack import Attack, Effort, column
from trainables.metrics.metric import QUESTIONS, Need

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores

_METRICS = {"forget": ("forget_fact_recall", "verbmem"), "retain": ("retain_fact_recall", "utility")}


def _run(scores: ModelScores) -> dict[str, float]:
    from trainables.metrics.fact_recall import mean_recall

    values: dict[str, float] = {}
    sides = [side for side in _METRICS if scores.evaluator.data.extra_eval.get(f"{side}_rephrased")]
    scores.generate([f"{side}_rephrased" for side in sides])
    for side in sides:
        (facts, words), set_name = _METRICS[side], f"{side}_rephrased"
        values[column(facts, "paraphrase")] = float(mean_recall(scores.fact_recalls(set_name)))
        values[column(words, "paraphrase")] = float(scores.recalls(set_name).mean())
    return values


ATTACK = Attack(
    name="paraphrase",
    formula="ask the forget and the retain questions in other words, which the data set or the table forget_rephrased "
    "gives, and count key facts and words of the greedy answers",
    citation="Patil, Hase and Bansal, Can Sensitive Information Be Deleted From LLMs?, ICLR 2024 (arXiv:2309.17410)",
    cost="generation of the answers to the questions in other words",
    effort=Effort(forget_losses=1.0, retain_losses=1.0, forget_answers=2.0, retain_answers=2.0),
    endings={"paraphrase": "asked in other words"},
    needs=(
        QUESTIONS,
        Need(
            "questions in other words (column paraphrased_question or table forget_rephrased)",
            lambda data, retain_model: bool(data.extra_eval.get("forget_rephrased")),
        ),
    ),
    sets=("default",),
    run=_run,
)
