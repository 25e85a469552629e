"""What every metric promises, as checks on its record. For a metric of one's own, in one's own tests:

check_metric(MINE)
"""

from __future__ import annotations

import math

from trainables.data.authors import authors
from trainables.metrics.metric import LANGUAGE, Metric

_SET_SIZES = {"authors": 4, "questions": 4, "forget_authors": 1}


def check_metric(metric: Metric) -> None:
    """All of the checks below; what a metric says is looked at where it is of language models and of no retain model.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    check_record(metric)
    if LANGUAGE in metric.modalities and not metric.loss:
        check_values(metric)


def check_record(metric: Metric) -> None:
    """A listing can show it in a line, a table can have it as a column, and its bounds are an interval."""
    is_column = metric.name.isidentifier() and metric.name == metric.name.lower()
    assert is_column, f"the name is a column's: lower case, digits and '_', got '{metric.name}'"
    assert metric.label, "the label is empty"
    assert metric.formula, "the formula is empty"
    assert "\n" not in metric.label + metric.formula + metric.citation, "label, formula and citation are a line each"
    high = math.inf if metric.high is None else metric.high
    assert metric.low < high, f"the bounds {metric.low:g} and {high:g} are no interval"
    assert metric.ideal is None or metric.low <= metric.ideal <= high, f"the ideal {metric.ideal} is out of bounds"
    assert metric.threshold is None or metric.of, "with a threshold it must say which set it is of, forget or retain"


def check_values(metric: Metric) -> None:
    """Of two models nobody has trained: finite, within the bounds, and the same when asked again."""
    import torch

    from trainables.models.checkpoints import ensure_pad_token
    from trainables.models.tiny import make_tiny, tokenizer_for
    from trainables.scoring.evaluator import Evaluator

    data = authors(**_SET_SIZES)
    if metric.lacks(data, retain_model=False):
        return  # a set or a retain model that this problem does not have
    tokenizer = tokenizer_for("tiny-phi", data.full)
    ensure_pad_token(tokenizer)
    for seed in (0, 1):
        model = make_tiny("tiny-phi", tokenizer, seed=seed)
        size = int(model.config.vocab_size)
        evaluator = Evaluator(
            data, tokenizer, vocabulary_size=size, max_length=96, batch_size=8, device=torch.device("cpu")
        )
        value, again = (float(metric.measure(evaluator.scores(model))) for _ in range(2))
        low, high = metric.bounds(math.log(size))
        assert math.isfinite(value), f"of a model nobody has trained it is {value}"
        assert low <= value <= high, f"{value:g} is outside its bounds, {low:g} and {high:g}"
        assert value == again, f"asked twice it says {value:g} and {again:g}"
