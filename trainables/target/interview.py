"""Put single questions to language models, with the prompts and the greedy decoding of the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.common.words import words
from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData
from trainables.modality import modality_of
from trainables.scoring.language import Evaluator
from trainables.scoring.prompted import CONTINUATION_TOKENS
from trainables.target.target import Target

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Known:
    """A question of the data, with its true answer and the name of its set, such as ``forget``."""

    set_name: str
    answer: str
    question: str


class Interview:
    """Puts questions to models that were made from one target.

    Raises:
        DataError: the target is not a language model.
        LoadError: the target's tokenizer cannot be loaded.
    """

    def __init__(self, target: Target, *, batch_size: int, device: torch.device | str) -> None:
        self._modality = modality_of(target.data, target.template)
        if not self._modality.answers_questions:
            raise DataError(f"{self._modality.models} cannot answer questions")
        evaluator = self._modality.evaluator(
            target.data,
            self._modality.load_processor(target.path),
            classes=target.vocabulary_size,
            max_length=target.max_length,
            batch_size=batch_size,
            device=device,
        )
        assert isinstance(evaluator, Evaluator)
        self._evaluator = evaluator
        self._device = device
        self._known = {
            _key(item.question): Known(name, item.answer, item.question) for name, item in _questions(evaluator.data)
        }
        set_names = [name for name, items in evaluator.data.question_sets.items() if items]
        self._limits = {name: max(evaluator.questions[name].limits) for name in set_names}

    def load(self, folder: Path) -> PreTrainedModel:
        """Load a model or an adapter. Raises LoadError."""
        return self._modality.load_model(folder).to(self._device)

    def known(self, question: str) -> Known | None:
        """Return the true answer to a question; None if the data do not have the question.

        Case, spaces and punctuation do not matter.
        """
        return self._known.get(_key(question))

    def answers(self, model: PreTrainedModel, questions: Sequence[str]) -> list[str]:
        """Return the model's greedy answer to each question.

        An answer is as long as in the metrics: at most as long as the longest true answer of the question's set. For
        other questions, the longest true answer of all sets is the limit.

        Raises:
            DataError: a question is longer than the maximum length of a sequence.
        """
        scorer = self._evaluator.scorer
        known = [self.known(question) for question in questions]
        longest = max(self._limits.values(), default=CONTINUATION_TOKENS)
        limits = [self._limits.get(item.set_name, longest) if item else longest for item in known]
        pairs = zip(questions, known, strict=True)
        sequences = scorer.encode([Example(question, item.answer if item else "") for question, item in pairs])
        return scorer.greedy_answers(model, sequences, scorer.nll(model, sequences), limits=limits)


def _questions(data: UnlearningData) -> Iterator[tuple[str, Example]]:
    """Yield all questions with the names of their sets. If a question is in several sets, the first set comes last."""
    sets = [("forget", data.forget), ("retain", data.retain), *data.question_sets.items(), ("training", data.full)]
    for name, examples in reversed(sets):
        for item in examples:
            if not item.is_text:
                yield name, item


def _key(question: str) -> tuple[str, ...]:
    return tuple(words(question)) or (question.strip(),)
