"""The modality of causal language models. Items are token sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainables.data.examples import Example, UnlearningData
from trainables.models import checkpoints
from trainables.models.checkpoints import folder_problems
from trainables.objectives.base import Reference
from trainables.template import QUESTION_ANSWER
from trainables.text import losses
from trainables.text.cut_notes import LoadTokenizer, cut_notes
from trainables.text.tokens import Batch, Tokens, collate, encode_examples, pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from trainables.scoring.language import Evaluator


@dataclass(frozen=True, slots=True)
class Language:
    """Implements :class:`~trainables.modality.modality.Modality` for language models. A processor is a tokenizer."""

    template: str = QUESTION_ANSWER
    name: ClassVar[str] = "language"
    models: ClassVar[str] = "language models"
    task: ClassVar[str] = "text-generation"
    unit: ClassVar[str] = "token"
    offline_model: ClassVar[str] = "tiny-phi"
    offline_dataset: ClassVar[str] = "authors"
    base_has_processor: ClassVar[bool] = True
    answers_questions: ClassVar[bool] = True
    unused_fields: ClassVar[Mapping[str, str]] = {}
    missing_outputs: ClassVar[Mapping[Reference, str]] = {}
    load_model = staticmethod(checkpoints.load_model)
    load_processor = staticmethod(checkpoints.load_tokenizer)
    predict = staticmethod(losses.predict)

    def with_template(self, template: str) -> Language:
        return replace(self, template=template)

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        return folder_problems(folder)  # a tokenizer is always required, even if ``processor`` is false

    def load_base(
        self, name: str, folder: Path | str | None, data: UnlearningData, *, seed: int = 0
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if folder is not None:
            return self.load_model(folder), self.load_processor(folder)
        from trainables.models.kernels import fuse_activations
        from trainables.models.tiny import make_tiny, tokenizer_for

        tokenizer = tokenizer_for(name, data.full)
        return fuse_activations(make_tiny(name, tokenizer, seed=seed)), tokenizer

    def load_skeleton(self, folder: Path | str, *, new_head: bool = False) -> PreTrainedModel:
        return checkpoints.load_model(folder, skeleton=True)  # the head of a language model is never replaced

    def fit_problems(
        self, model: PreTrainedModel, processor: PreTrainedTokenizerBase, data: UnlearningData, *, max_length: int
    ) -> list[str]:
        from trainables.scoring.fit import fit_problems

        return fit_problems(model, processor, data, max_length=max_length, template=self.template)

    def cut_notes(self, data: UnlearningData, load_processor: LoadTokenizer, *, max_length: int) -> Iterator[str]:
        return cut_notes(data, load_processor, length=max_length, template=self.template)

    def classes(self, configuration: PretrainedConfig) -> int:
        return int(configuration.get_text_config().vocab_size)

    def encode(
        self, processor: PreTrainedTokenizerBase, examples: Sequence[Example], *, max_length: int
    ) -> tuple[Tokens, ...]:
        return encode_examples(processor, examples, max_length=max_length, template=self.template)

    def lengths(self, items: Sequence[Tokens]) -> list[int]:
        return [len(item) for item in items]

    def supervised(self, items: Sequence[Tokens]) -> list[int]:
        # The first token has no predecessor that could predict it.
        return [len(item) - max(item.prompt_length, 1) for item in items]

    def collate(
        self,
        items: Sequence[Tokens],
        indices: Sequence[int],
        *,
        processor: PreTrainedTokenizerBase,
        device: torch.device | str,
    ) -> Batch:
        return collate(items, indices, pad_id=pad_id(processor), device=device)

    def evaluator(
        self,
        data: UnlearningData,
        processor: PreTrainedTokenizerBase,
        *,
        classes: int,
        max_length: int,
        batch_size: int,
        device: torch.device | str,
    ) -> Evaluator:
        from trainables.scoring.language import Evaluator
        from trainables.text.scorer import TextScorer

        scorer = TextScorer(
            tokenizer=processor, max_length=max_length, batch_size=batch_size, device=device, template=self.template
        )
        return Evaluator(data, scorer, vocabulary_size=classes)
