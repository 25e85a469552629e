"""The project's own metrics, models and templates pass the suites that a user's own are checked by.

Weightings, objectives, data sets and modalities do in the rooms of their tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transformers import BertConfig, BertLMHeadModel

from trainables.metrics.registry import METRICS
from trainables.models.checkpoints import ensure_pad_token
from trainables.models.registry import MODELS
from trainables.models.tiny import tokenizer_for
from trainables.template import Template
from trainables.templates import TEMPLATES
from trainables.testing.metrics import check_metric
from trainables.testing.models import check_model
from trainables.testing.templates import check_template


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_keeps_its_promises(name: str) -> None:
    check_metric(METRICS[name])


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_its_promises(name: str) -> None:
    check_model(MODELS[name])


def test_the_template_of_base_models_keeps_its_promises() -> None:
    check_template(TEMPLATES["question-answer"])


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"name": "Verb Mem"}, "the name is a column's"),
        ({"formula": "two\nlines"}, "a line each"),
        ({"low": 1.0}, "no interval"),
        ({"of": None, "threshold": {"below": 0.1}}, "which set it is of"),
        ({"measure": lambda scores: float("nan")}, "of a model nobody has trained it is nan"),
        ({"measure": lambda scores: 1.5}, "1.5 is outside its bounds, 0 and 1"),
    ],
)
def test_a_metric_that_breaks_a_promise_is_told_which(change: dict[str, Any], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_metric(replace(METRICS["verbmem"], **change))


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"dataset": "nowhere"}, "unknown data set 'nowhere'"),
        ({"dataset": "digits"}, "is for vision models"),
        ({"lr": 1.0}, "must lie in the range"),
        ({"batch_size": 0}, "must be at least 1"),
    ],
)
def test_a_model_that_breaks_a_promise_is_told_which(change: dict[str, Any], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_model(replace(MODELS["tiny-phi"], **change))


def _sees_what_comes_after(data: Any, seed: int) -> tuple[Any, Any]:
    tokenizer = tokenizer_for("tiny-phi", data.full)
    ensure_pad_token(tokenizer)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    # Large weights: fresh ones of 0.02 say nothing about anything.
    return BertLMHeadModel(BertConfig(vocab_size=len(tokenizer), initializer_range=1.0, **sizes)), tokenizer


def test_a_model_that_sees_what_comes_after_a_token_is_told() -> None:
    with pytest.raises(AssertionError, match="an item's loss depends on the batch"):
        check_model(replace(MODELS["tiny-phi"], make=_sees_what_comes_after))


def test_a_template_that_supervises_more_than_the_answer_is_told() -> None:
    with pytest.raises(AssertionError, match="is supervised"):
        check_template(Template(name="loose", text="Q: {question}\nA: {answer} (so I am told)", description="loose"))
