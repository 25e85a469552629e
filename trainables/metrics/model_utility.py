"""Model utility: a single number for what a model knows outside the forget set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trainables.metrics.metric import EXTRA_SETS, FURTHER_CHOICES, RETAIN_CHOICES, TOFU, Array, Cost, Metric
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.truth_ratio import retain_truth_ratio

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores


class Scores(NamedTuple):
    """The scores of one evaluation set, each in [0, 1]."""

    probability: float
    rouge_l_recall: float
    truth_ratio: float


def model_utility(*, retain: Scores, real_authors: Scores, world_facts: Scores) -> float:
    """Return the harmonic mean of the three scores on each of the three sets, in [0, 1]; NaN if a score is NaN.

    Maini et al., TOFU (arXiv:2401.06121).
    """
    from statistics import harmonic_mean  # imported here, because the import takes 10 ms, too long for --help

    nine = (*retain, *real_authors, *world_facts)
    return math.nan if any(map(math.isnan, nine)) else harmonic_mean(nine)


def _measured(scores: ModelScores) -> float:
    def aggregated(part: str, chance: Array) -> Scores:
        ratio = retain_truth_ratio(scores.choices[part].truth_ratios)
        return Scores(float(chance.mean()), float(scores.recalls(part).mean()), ratio)

    def among_choices(part: str) -> Scores:
        right = scores.losses(part)[scores.evaluator.choices[part].items]
        return aggregated(part, normalised_probability(right, scores.choices[part].perturbed))

    retain = aggregated("retain", probability(scores.losses("retain")))
    return model_utility(retain=retain, **{part: among_choices(part) for part in EXTRA_SETS})


METRICS = (
    Metric(
        name="model_utility",
        label="model utility",
        direction="max",
        of="retain",
        sets=("tofu",),
        needs=(RETAIN_CHOICES, FURTHER_CHOICES),
        cost=Cost.ALL,
        formula="harmonic mean of nine scores: probability, ROUGE-L recall and truth ratio, each on the retain set, "
        "the real authors and the world facts",
        citation=TOFU,
        measure=_measured,
    ),
)
