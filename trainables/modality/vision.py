"""The modality of image classifiers: examples and items are both an :class:`~trainables.data.images.ImageSet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainables.data.images import ImageData, ImageSet
from trainables.scoring.classification import ClassificationEvaluator
from trainables.text.losses import Predictions
from trainables.vision.losses import predict, score
from trainables.vision.models import load_classifier
from trainables.vision.processing import ImageBatch, ImageProcessor, collate

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

MEMORISED_ACCURACY = 0.99
"""Accuracy on the forget set and on the retain sample above which the data count as memorised."""


class Vision:
    """See :class:`~trainables.modality.modality.Modality`; the processor is an image processor, items have length 1."""

    name: ClassVar[str] = "vision"

    def load_model(self, folder: Path | str) -> PreTrainedModel:
        """An image classifier."""
        return load_classifier(folder)

    def load_processor(self, folder: Path | str) -> ImageProcessor:
        """Its image processor."""
        return ImageProcessor.from_pretrained(folder)

    def classes(self, configuration: PretrainedConfig) -> int:
        """``K``, the number of labels."""
        return int(configuration.num_labels)

    def encode(self, processor: ImageProcessor, examples: ImageSet, *, max_length: int) -> ImageSet:
        """The images as they are: pixels become numbers batch by batch, on the device."""
        return examples

    def lengths(self, items: ImageSet) -> list[int]:
        """1 for every image."""
        return [1] * len(items)

    def collate(
        self, items: ImageSet, indices: Sequence[int], *, processor: ImageProcessor, device: torch.device | str
    ) -> ImageBatch:
        """A batch of normalised images."""
        return collate(items, indices, processor=processor, device=device)

    def predict(self, model: PreTrainedModel, batch: ImageBatch) -> Predictions:
        """Class predictions, as those of one position."""
        return predict(model, batch)

    def nll(
        self,
        model: PreTrainedModel,
        items: ImageSet,
        *,
        processor: ImageProcessor,
        batch_size: int,
        device: torch.device | str,
    ) -> tuple[list[float], list[int]]:
        """Per image the NLL of its label, and 1."""
        nll, _ = score(model, items, processor=processor, batch_size=batch_size, device=device)
        return nll.tolist(), self.lengths(items)

    def evaluator(
        self,
        data: ImageData,
        processor: ImageProcessor,
        *,
        classes: int,
        max_length: int,
        batch_size: int,
        device: torch.device | str,
    ) -> ClassificationEvaluator:
        """Losses and accuracies."""
        return ClassificationEvaluator(data, processor, classes=classes, batch_size=batch_size, device=device)

    def memorised(self, evaluator: ClassificationEvaluator, model: PreTrainedModel) -> bool:
        """Whether the model names nearly every training image's class."""
        scores = evaluator.final(model)
        return min(scores["forget_accuracy"], scores["retain_accuracy"]) > MEMORISED_ACCURACY


VISION = Vision()
