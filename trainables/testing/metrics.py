"""Check your own metric in a test: ``check_metric(MINE)``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainables.data.authors import authors
from trainables.metrics.metric import LANGUAGE, Metric


def check_metric(*metrics: Metric) -> None:
    """Check that a metric's fields are consistent, and check its values for two untrained models.

    The name must be usable as a table column. The values must be finite, within the bounds, and reproducible. The
    values are checked only if the metric can be measured on the data set ``authors`` without a retain model. Several
    metrics are measured together, so what they share, such as an attack, is computed once.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    for metric in metrics:
        _check_fields(metric)
    _check_values([metric for metric in metrics if LANGUAGE in metric.modalities and not metric.loss])


def _check_fields(metric: Metric) -> None:
    is_column = metric.name.isidentifier() and metric.name == metric.name.lower()
    assert is_column, f"the name must be a column name (lower case, digits, '_'), got '{metric.name}'"
    assert metric.label, "the label is empty"
    assert metric.formula, "the formula is empty"
    assert "\n" not in metric.label + metric.formula + metric.citation, (
        "label, formula and citation must be one line each"
    )
    high = math.inf if metric.high is None else metric.high
    assert metric.low < high, f"the lower bound must be less than the upper bound, got {metric.low:g} and {high:g}"
    assert metric.ideal is None or metric.low <= metric.ideal <= high, (
        f"the ideal {metric.ideal} must lie between the bounds"
    )
    assert metric.threshold is None or metric.of, (
        "a metric with a threshold must name its set: of='forget' or of='retain'"
    )


def _check_values(metrics: Sequence[Metric]) -> None:
    from trainables.models.tiny import make_tiny, tokenizer_for
    from trainables.scoring.language import Evaluator
    from trainables.spec import TrialSpec
    from trainables.target.target import attack_settings
    from trainables.text.scorer import TextScorer

    data = authors(authors=4, questions=4, forget_authors=1)
    # The other metrics need data, or a retain model, that this test does not have.
    measured = [metric for metric in metrics if not metric.unmet_needs(data, retain_model=False, target=False)]
    if not measured:
        return
    tokenizer = tokenizer_for("tiny-phi", data.full)
    scorer = TextScorer(tokenizer=tokenizer, max_length=96, batch_size=8, device="cpu")
    for seed in (0, 1):
        model = make_tiny("tiny-phi", tokenizer, seed=seed)
        size = int(model.config.vocab_size)
        evaluator = Evaluator(data, scorer, vocabulary_size=size)
        evaluator.attack_settings = attack_settings(TrialSpec())
        scores, repeated_scores = evaluator.scores(model), evaluator.scores(model)
        for metric in measured:
            value, repeated = float(metric.measure(scores)), float(metric.measure(repeated_scores))
            low, high = metric.bounds(math.log(size))
            subject = f"of {metric.name} for an untrained model"
            assert math.isfinite(value), f"the value {subject} must be finite, got {value}"
            assert low <= value <= high, f"the value {subject}, {value:g}, is outside the bounds {low:g} and {high:g}"
            assert value == repeated, f"two measurements {subject} must agree, got {value:g} and {repeated:g}"
