"""What differs between language models and image classifiers: one object for each kind of data, all else is shared.

A modality turns examples into *items* (one per example, opaque to everybody else), items into batches, and batches into
:class:`~trainables.text.losses.Predictions`. An image is a sequence of one supervised position: ``S = 1`` and ``V`` is
the number of classes, so that forget objectives, weightings, AutoLR, fine-tuning and losses are the same code for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trainables.data import ImageData, ProblemData
from trainables.modality.language import Language
from trainables.modality.vision import VISION
from trainables.scoring.measured import Measured
from trainables.text.losses import Predictions
from trainables.text.tokens import QUESTION_ANSWER

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.scoring.model_scores import RetainValues


class ModelEvaluator(Protocol):
    """Scores models on one unlearning problem; ``random_guess`` is the loss of a uniform guess, in nats."""

    random_guess: float

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """The losses reported after every epoch."""

    def final(self, model: PreTrainedModel) -> dict[str, float]:
        """The default metrics of a finished model."""

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """The metrics called ``names`` (none: the default ones), with their items; raises MetricError.

        ``unchanged``: :meth:`losses` was asked about this model last, and it is the same still.
        """


class Modality(Protocol):
    """How one kind of data is read, batched and scored; a *processor* is a tokenizer or an image processor."""

    name: ClassVar[str]

    def load_model(self, folder: Path | str) -> PreTrainedModel:
        """The model in a folder, in float32; raises LoadError with a plain sentence."""

    def load_processor(self, folder: Path | str) -> Any:
        """Its processor, which ``save_pretrained(folder)`` writes again; raises LoadError."""

    def classes(self, configuration: Any) -> int:
        """``V``: how many tokens or labels a model of this ``transformers`` configuration tells apart."""

    def encode(self, processor: Any, examples: Any, *, max_length: int) -> Any:
        """The items of some examples, in order; raises DataError where one does not fit."""

    def lengths(self, items: Any) -> Sequence[int]:
        """The length of each item, by which batches are bucketed."""

    def collate(self, items: Any, indices: Sequence[int], *, processor: Any, device: torch.device | str) -> Any:
        """The items at ``indices`` as one batch on ``device``."""

    def predict(self, model: PreTrainedModel, batch: Any) -> Predictions:
        """One forward pass over a batch."""

    def nll(
        self, model: PreTrainedModel, items: Any, *, processor: Any, batch_size: int, device: torch.device | str
    ) -> tuple[list[float], list[int]]:
        """Per item, in order: the summed NLL of its supervised positions (nats) and their count; in eval mode."""

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
        """What scores models on ``data``."""

    def memorised(self, evaluator: Any, model: PreTrainedModel) -> bool:
        """Whether a model whose training loss is low has learned its data by heart, as :meth:`evaluator` sees it."""


def modality_of(data: ProblemData, template: str = QUESTION_ANSWER) -> Modality:
    """The modality of an unlearning problem; ``template`` is how a language model is asked."""
    return VISION if isinstance(data, ImageData) else Language(template)
