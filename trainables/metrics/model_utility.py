"""Model utility: a single number for what a model knows outside the forget set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trainables.metrics.item_mean import ItemMean, item_mean
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

    @property
    def parts(self) -> list[tuple[Array, Array]]:
        """The values of the items, as in :class:`~trainables.metrics.item_mean.ItemMean`."""
        return [part for score in self if isinstance(score, ItemMean) for part in score.parts]


def model_utility(*, retain: Scores, real_authors: Scores, world_facts: Scores) -> float:
    """Return the harmonic mean of the three scores on each of the three sets, in [0, 1]; NaN if a score is NaN.

    Maini et al., TOFU (arXiv:2401.06121).
    """
    from statistics import harmonic_mean  # imported here, because the import takes 10 ms, too long for --help

    scores = (*retain, *real_authors, *world_facts)
    has_nan = any(math.isnan(score) for score in scores)
    return math.nan if has_nan else harmonic_mean(scores)


def _measure(scores: ModelScores) -> ItemMean:
    def aggregate(set_name: str, probabilities: Array) -> Scores:
        return Scores(
            probability=item_mean(probabilities),
            rouge_l_recall=item_mean(scores.recalls(set_name)),
            truth_ratio=retain_truth_ratio(scores.choices[set_name].truth_ratios),
        )

    def score_choices(set_name: str) -> Scores:
        answer_losses = scores.losses(set_name)[scores.evaluator.choices[set_name].items]
        return aggregate(set_name, normalised_probability(answer_losses, scores.choices[set_name].perturbed))

    retain = aggregate("retain", probability(scores.losses("retain")))
    extra_scores = {set_name: score_choices(set_name) for set_name in EXTRA_SETS}
    sets = (retain, *extra_scores.values())
    return ItemMean(model_utility(retain=retain, **extra_scores), [part for item in sets for part in item.parts])


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
        measure=_measure,
    ),
)
