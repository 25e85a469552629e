"""Sample answers: a fact that greedy answers never tell may be told in one of k sampled answers."""

from __future__ import annotations

from math import comb
from statistics import fmean
from typing import TYPE_CHECKING

from trainables.attacks.attack import Attack, Effort, own_metric
from trainables.metrics.metric import QUESTIONS

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores

_SEED = 0


def leak_at_k(leaks: int, n: int, k: int) -> float:
    """Return ``1 - C(n - c, k) / C(n, k)`` for c leaks among n samples.

    This is the unbiased estimate of the probability that at least one of k samples leaks, as in pass@k (Chen et al.,
    Evaluating Large Language Models Trained on Code, 2021, arXiv:2107.03374). k must be at most n.
    """
    return 1.0 - comb(n - leaks, k) / comb(n, k)


def _run(scores: ModelScores) -> dict[str, float]:
    from trainables.metrics.key_facts import is_told
    from trainables.metrics.rouge import stemmed_words

    evaluator, settings = scores.evaluator, scores.evaluator.attack_settings
    n, k = int(settings["leak_samples"]), int(settings["leak_k"])
    question_set, facts = evaluator.questions["forget"], evaluator.facts["forget"]
    asked = [index for index, item in enumerate(facts) if item]
    if not asked:
        return {}
    prompts = [question_set.sequences[index].prompt for index in asked]
    limits = [question_set.limits[index] for index in asked]
    answers = evaluator.scorer.sampled_answers(scores.model, prompts, n=n, limits=limits, seed=_SEED)
    shares = []
    for index, texts in zip(asked, answers, strict=True):
        samples = [stemmed_words(text) for text in texts]
        leaks = [sum(is_told(fact, sample) for sample in samples) for fact in facts[index]]
        shares.append(fmean(leak_at_k(count, n, k) for count in leaks))
    return {"leak_at_k": fmean(shares)}


ATTACK = Attack(
    name="sample",
    formula="sample n answers to each forget question at temperature 1 (--leak-samples). For a key fact that c of them "
    "tell, leak@k = 1 - C(n - c, k) / C(n, k) estimates the probability that one of k answers tells it (--leak-k); "
    "mean over the key facts of a question, then over the questions. With k = 1 this is the expected fact recall",
    citation="leak@k: arXiv:2511.04934, which counts whole answers by entailment; here, key facts are counted",
    cost="n sampled answers to each forget question",
    effort=Effort(forget_answers=1.0, per_sample=True),
    endings={},
    attacked=(),
    own=(
        own_metric(
            name="leak_at_k",
            label="facts of the forget set told in one of k sampled answers",
            unit="share of key facts",
            formula="leak@k, the mean over key facts of 1 - C(n - c, k) / C(n, k)",
            direction="min",
            of="forget",
            needs=(QUESTIONS,),
            attacked="forget_fact_recall",
        ),
    ),
    options="--leak-samples, --leak-k",
    sets=("default",),
    run=_run,
)
