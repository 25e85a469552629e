"""The record of every metric, and the arguments that no metric accepts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from trainables.metrics.forget_quality import forget_quality
from trainables.metrics.membership import (
    membership_auc,
    min_k_plus_plus_scores,
    min_k_scores,
    reference_scores,
    zlib_scores,
)
from trainables.metrics.memorization import exact_memorization, extraction_strength
from trainables.metrics.metric import LANGUAGE, VISION, Metric
from trainables.metrics.model_utility import Scores, model_utility
from trainables.metrics.privleak import privleak
from trainables.metrics.probability import normalised_probability, probability
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS, SETS, primary_metrics
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import retain_truth_ratio, truth_ratio


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_a_record_fits_in_a_line_its_bounds_hold_its_ideal_and_its_optimised_form_has_a_direction(
    metric: Metric,
) -> None:
    for text in (metric.label, metric.formula, metric.citation):
        assert text.strip()
        assert "\n" not in text
    low, high = metric.bounds(math.log(100))
    assert low < high
    assert metric.ideal is None or low < metric.ideal < high
    assert metric.modalities
    assert set(metric.modalities) <= {LANGUAGE, VISION}
    assert "{" not in metric.axis("token")
    optimised = METRICS[metric.optimised]
    assert optimised.direction is not None
    assert all(map(math.isfinite, optimised.bounds(1.0)))


def test_the_losses_are_measured_always_and_in_no_set() -> None:
    assert LOSS_METRICS == ("forget_loss", "retain_loss", "forget_loss_capped")
    assert not [name for names in SETS.values() for name in names if name in LOSS_METRICS]
    assert set(DEFAULT_SET) < set(SETS["all"])


@pytest.mark.parametrize("modality", [LANGUAGE, VISION])
def test_each_modality_has_one_primary_metric_of_each_set(modality: str) -> None:
    assert [METRICS[name].of for name in primary_metrics(modality)] == ["forget", "retain"]


NO_FIT: dict[str, tuple[Callable[[], object], str]] = {
    "privleak of a percentage": (
        lambda: privleak(unlearned_auc=53.0, retrained_auc=0.5),
        r"unlearned_auc .*\[0, 1\].*53",
    ),
    "privleak without a retained AUC": (lambda: privleak(unlearned_auc=0.5, retrained_auc=1.0), "retrained_auc .*1"),
    "ratios of too few rows": (lambda: truth_ratio([1.0, 2.0], [[1.0]]), "perturbed .*2 items, got 1"),
    "ratios of an empty row": (lambda: truth_ratio([1.0, 2.0], [[1.0], []]), "perturbed .*item 1"),
    "a mean of no ratios": (lambda: retain_truth_ratio([]), "truth ratios"),
    "AUC without members": (lambda: membership_auc([], [1.0]), "members"),
    "zlib of too few texts": (lambda: zlib_scores([[-1.0], [-1.0]], ["one"]), "2 items, got 1"),
    "reference of too few rows": (lambda: reference_scores([[-1.0], [-1.0]], [[-1.0]]), "2 items, got 1"),
    "min-k++ of other tokens": (
        lambda: min_k_plus_plus_scores([[-1.0, -2.0]], [[0.0]], [[1.0, 1.0]]),
        "2 tokens, got 1 and 2",
    ),
    "min-k of no share": (lambda: min_k_scores([[-1.0]], fraction=0), r"fraction .*\(0, 1\], got 0"),
    "a negative score": (
        lambda: model_utility(retain=ZERO, real_authors=ZERO, world_facts=Scores(-0.1, 0.0, 0.0)),
        "negative",
    ),
    "no retain model": (lambda: forget_quality([1.0], []), "retain model"),
    "recall of too few texts": (lambda: rouge_l_recall(["one", "two"], ["one"]), "1 for 2"),
    "no answers": (lambda: probability([]), "answers"),
    "probabilities of too many rows": (lambda: normalised_probability([1.0], [[1.0], [1.0]]), "1 items, got 2"),
    **{
        f"{metric.__name__} of {kind}": (lambda metric=metric, given=given: metric(*given), fact)  # type: ignore[misc]
        for metric in (exact_memorization, extraction_strength)
        for kind, given, fact in (
            ("too few rows", ([[1]], [[1], [2]]), "2 items, got 1"),
            ("other lengths", ([[1], [1, 2]], [[1], [2]]), r"item 1: .*\(2,\) and \(1,\)"),
            ("an empty row", ([[]], [[]]), "item 0"),
        )
    },
}
ZERO = Scores(0.0, 0.0, 0.0)


@pytest.mark.parametrize("case", NO_FIT)
def test_arguments_that_do_not_fit_are_named(case: str) -> None:
    compute, fact = NO_FIT[case]
    with pytest.raises(ValueError, match=fact):
        compute()
