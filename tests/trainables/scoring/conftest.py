"""Evaluators of small problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainables.data.examples import UnlearningData
from trainables.scoring.evaluator import Evaluator

MakeEvaluator = Callable[..., Evaluator]


@pytest.fixture(scope="session")
def make_evaluator(tokenizer: Any, tiny_data: UnlearningData) -> MakeEvaluator:
    """Makes an evaluator on the CPU, of the tiny data unless others are given."""

    def make(data: UnlearningData = tiny_data, *, batch_size: int = 5) -> Evaluator:
        size = len(tokenizer)
        return Evaluator(data, tokenizer, vocabulary_size=size, max_length=64, batch_size=batch_size, device="cpu")

    return make
