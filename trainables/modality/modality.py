"""The interface of a modality: everything that differs between language models and image classifiers.

A modality converts examples to *items*, items to batches, and batches to :class:`~trainables.predictions.Predictions`.
An image counts as a sequence with one supervised position, so both modalities share the code of objectives and AutoLR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trainables.objectives.base import Reference
from trainables.predictions import Predictions
from trainables.scoring.base import ModelEvaluator

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Modality(Protocol):
    """Encodes, batches and scores one kind of data. A *processor* is a tokenizer or an image processor.

    Attributes:
        models: the plural noun for models in messages, such as ``language models``.
        task: the name of the task in model cards and in transformers' pipelines.
        unit: ``token`` or ``image``, over which losses are averaged.
        offline_model, offline_dataset: a model and a data set that need no network.
        base_has_processor: whether the processor comes from the base model's folder, instead of from the data.
        answers_questions: whether a model can answer a question in text.
        unused_fields: maps each field of a trial's spec that this modality does not use to the reason.
        missing_outputs: maps each output of the target that this modality does not have to a description of the
            missing part.
    """

    name: ClassVar[str]
    models: ClassVar[str]
    task: ClassVar[str]
    unit: ClassVar[str]
    offline_model: ClassVar[str]
    offline_dataset: ClassVar[str]
    base_has_processor: ClassVar[bool]
    answers_questions: ClassVar[bool]
    unused_fields: ClassVar[Mapping[str, str]]
    missing_outputs: ClassVar[Mapping[Reference, str]]

    def with_template(self, template: str) -> Modality:
        """Return a copy with this prompt template. A modality without prompts returns itself unchanged."""

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        """Return a message for each problem with a model folder. ``processor`` is whether a processor is required."""

    def load_base(
        self, name: str, folder: Path | str | None, data: Any, *, seed: int = 0
    ) -> tuple[PreTrainedModel, Any]:
        """Return the model from which the target is trained, and its processor. Raises LoadError.

        The model is loaded from ``folder``. If ``folder`` is None, the registered model ``name`` is created with random
        weights.
        """

    def load_model(self, folder: Path | str) -> PreTrainedModel:
        """Load the model in a folder, with float32 weights. Raises LoadError."""

    def load_processor(self, folder: Path | str) -> Any:
        """Load the processor that ``processor.save_pretrained(folder)`` wrote. Raises LoadError."""

    def load_skeleton(self, folder: Path | str, *, new_head: bool = False) -> PreTrainedModel:
        """Load only the names and shapes of a model's weights, onto torch's meta device. Raises LoadError.

        ``new_head`` is whether a head without weights, or with another number of classes, will be replaced.
        """

    def fit_problems(self, model: PreTrainedModel, processor: Any, data: Any, *, max_length: int) -> list[str]:
        """Return a message for each way in which the data do not fit the model. The model may be a skeleton."""

    def cut_notes(self, data: Any, load_processor: Callable[[Any], Any], *, max_length: int) -> Iterator[str]:
        """Yield a note for each set with examples that are cut. ``load_processor`` may return None."""

    def classes(self, configuration: Any) -> int:
        """Return the number of tokens or labels from the model's ``transformers`` configuration."""

    def encode(self, processor: Any, examples: Any, *, max_length: int) -> Any:
        """Convert examples to items. Raises DataError if an example is too long."""

    def lengths(self, items: Any) -> Sequence[int]:
        """Return the length of each item."""

    def supervised(self, items: Any) -> Sequence[int]:
        """Return the number of supervised positions in each item."""

    def collate(self, items: Any, indices: Sequence[int], *, processor: Any, device: torch.device | str) -> Any:
        """Return the items at ``indices`` as one batch on ``device``."""

    def predict(self, model: PreTrainedModel, batch: Any) -> Predictions:
        """Return the predictions of one forward pass over a batch."""

    def evaluator(
        self,
        data: Any,
        processor: Any,
        *,
        classes: int,
        max_length: int,
        batch_size: int,
        device: torch.device | str,
    ) -> ModelEvaluator:
        """Return an evaluator that measures models on ``data``."""
