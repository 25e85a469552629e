"""The probability of each answer token, recorded while a model's losses are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.metric import Array
from trainables.predictions import Predictions
from trainables.text.tokens import Tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class AnswerTokens:
    """The T tokens of one answer under teacher forcing, without the final end token (as in arXiv:2506.12618).

    Attributes:
        nll: float64 ``(T,)``, ``-log p`` of each token in nats.
        correct: bool ``(T,)``, whether no other token is more probable.
    """

    nll: Array
    correct: NDArray[np.bool_]


class RecordedTokens:
    """Records the :class:`AnswerTokens` of each sequence. Needs no pass over the logits besides that of the losses.

    Attributes:
        sequences: the sequences whose losses are computed.
        ends: the tokens that end an answer. As the last token of an answer, they are not recorded, unless the answer
            has no other token.
    """

    def __init__(self, sequences: Sequence[Tokens], ends: Sequence[int]) -> None:
        self._lengths = [
            len(item) - item.prompt_length - (item.ids[-1] in ends and len(item) > item.prompt_length + 1)
            for item in sequences
        ]
        self._recorded: dict[int, AnswerTokens] = {}

    def __call__(self, indices: Sequence[int], predictions: Predictions) -> None:
        """Record a batch with the sequences at ``indices``."""
        supervised = predictions.supervised.cpu().numpy()
        nll, correct = predictions.nll.double().cpu().numpy(), predictions.correct.cpu().numpy()
        for row, index in enumerate(indices):
            is_answer, length = supervised[row], self._lengths[index]
            self._recorded[index] = AnswerTokens(nll[row, is_answer][:length], correct[row, is_answer][:length])

    @property
    def texts(self) -> list[AnswerTokens]:
        """The tokens of each sequence, in the order of the sequences."""
        return [self._recorded[index] for index in range(len(self._lengths))]
