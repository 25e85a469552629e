"""The project's own metrics and models pass the suites for plug-ins, which name a broken promise.

The suites of weightings, objectives and data sets run in the folders of their tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transformers import BertConfig, BertLMHeadModel

from trainables.attacks.registry import ATTACKS
from trainables.metrics.registry import METRICS
from trainables.models.causal import NotCausalError
from trainables.models.registry import MODELS
from trainables.models.tiny import tokenizer_for
from trainables.testing.metrics import check_metric
from trainables.testing.models import check_model


def _model_that_sees_later_tokens(data: Any, seed: int) -> tuple[Any, Any]:
    tokenizer = tokenizer_for("tiny-phi", data.full)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    # Large weights, because the output of fresh ones of 0.02 hardly depends on the input.
    return BertLMHeadModel(BertConfig(vocab_size=len(tokenizer), initializer_range=1.0, **sizes)), tokenizer


@pytest.mark.parametrize("attack", ["", *ATTACKS])
def test_every_metric_keeps_its_promises(attack: str) -> None:
    """The metrics of an attack are measured together, and so are those without an attack."""
    check_metric(*(metric for metric in METRICS.values() if metric.attack == attack))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_its_promises(name: str) -> None:
    check_model(MODELS[name])


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"name": "Verb Mem"}, "the name .*'Verb Mem'"),
        ({"formula": "two\nlines"}, "formula"),
        ({"low": 1.0}, "less than the upper bound"),
        ({"of": None, "threshold": {"below": 0.1}}, "name its set"),
        ({"measure": lambda scores: float("nan")}, "nan"),
        ({"measure": lambda scores: 1.5}, "1.5, .*0 and 1"),
    ],
)
def test_the_broken_promise_of_a_metric_is_named(change: dict[str, Any], fact: str) -> None:
    with pytest.raises(AssertionError, match=fact):
        check_metric(replace(METRICS["verbmem"], **change))


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"dataset": "nowhere"}, "'nowhere'"),
        ({"dataset": "digits"}, "digits .*vision"),
        ({"lr": 1.0}, "learning rate 1 .*range"),
        ({"batch_size": 0}, "batch sizes"),
    ],
)
def test_the_broken_promise_of_a_model_is_named(change: dict[str, Any], fact: str) -> None:
    with pytest.raises(AssertionError, match=fact):
        check_model(replace(MODELS["tiny-phi"], **change))


def test_a_model_that_sees_later_tokens_is_refused_and_depends_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = replace(MODELS["tiny-phi"], make=_model_that_sees_later_tokens)
    with pytest.raises(NotCausalError, match="sees the next tokens"):
        check_model(model)
    monkeypatch.setattr("trainables.models.causal.require_causal", lambda model, name: None)
    with pytest.raises(AssertionError, match="depends on the batch"):
        check_model(model)
