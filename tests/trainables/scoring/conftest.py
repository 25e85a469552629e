"""An evaluator for a small problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainables.data.examples import UnlearningData
from trainables.scoring.language import Evaluator
from trainables.text.scorer import TextScorer

MakeEvaluator = Callable[..., Evaluator]


@pytest.fixture(scope="session")
def make_evaluator(tokenizer: Any, tiny_data: UnlearningData) -> MakeEvaluator:
    """Return a function that makes an evaluator on the CPU; the default data are the tiny data."""

    def make(data: UnlearningData = tiny_data, *, batch_size: int = 5, max_length: int = 64) -> Evaluator:
        scorer = TextScorer(tokenizer=tokenizer, max_length=max_length, batch_size=batch_size, device="cpu")
        return Evaluator(data, scorer, vocabulary_size=len(tokenizer))

    return make
