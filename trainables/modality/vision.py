"""The modality of image classifiers. Items are images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainables.modality.evaluation import evaluate_items
from trainables.models.checkpoints import folder_problems
from trainables.objectives.base import Reference
from trainables.vision import losses, processing
from trainables.vision.models import base_classifier, load_classifier
from trainables.vision.processing import ImageBatch, ImageProcessor, collate

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

    from trainables.data.images import ImageData, ImageSet
    from trainables.scoring.classification import ClassificationEvaluator


class Vision:
    """Implements :class:`~trainables.modality.modality.Modality` for image classifiers. All items have length 1."""

    name: ClassVar[str] = "vision"
    models: ClassVar[str] = "image classifiers"
    task: ClassVar[str] = "image-classification"
    unit: ClassVar[str] = "image"
    offline_model: ClassVar[str] = "tiny-resnet"
    offline_dataset: ClassVar[str] = "digits"
    base_has_processor: ClassVar[bool] = False
    answers_questions: ClassVar[bool] = False
    unused_fields: ClassVar[Mapping[str, str]] = {
        "lora_rank": "all weights of an image classifier are trained, including convolutions",
        "target_lora_rank": "all weights of an image classifier are trained, including convolutions",
        "gradient_checkpointing": "a ResNet does not support this option",
        "micro_batch": "batch normalisation needs the whole batch",
        "max_length": "images are not sequences of tokens",
        "template": "images have no prompts",
        "loss_examples": "losses and accuracies are computed in the same forward pass",
    }
    missing_outputs: ClassVar[Mapping[Reference, str]] = {
        Reference.PAIR_NLL: "text answers, which this method replaces by refusals",
        Reference.ALTERNATE_NLL: "text answers, which this method replaces by other answers",
        Reference.REFUSAL_TOKENS: "the tokens of a refusal",
        Reference.HIDDEN: "decoder blocks, whose hidden states the method needs",
    }
    load_base = staticmethod(base_classifier)
    load_model = staticmethod(load_classifier)
    load_processor = staticmethod(ImageProcessor.from_pretrained)
    predict = staticmethod(losses.predict)

    def with_template(self, template: str) -> Vision:
        return self

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        problems = folder_problems(folder, tokenizer=False)
        if processor and not (folder / processing.FILE).is_file():
            problems.append(f"{processing.FILE} is missing")
        return problems

    def load_skeleton(self, folder: Path | str, *, new_head: bool = False) -> PreTrainedModel:
        return load_classifier(folder, new_head=new_head, skeleton=True)

    def fit_problems(
        self, model: PreTrainedModel, processor: ImageProcessor, data: ImageData, *, max_length: int
    ) -> list[str]:
        images = data.source
        model_classes, classes, channels = self.classes(model.config), len(images.classes), images.pixels.shape[-1]
        problems = []
        if model_classes < classes:
            problems.append(f"the model has only {model_classes} classes, but {data.name} has {classes}")
        if channels not in (1, len(processor.mean)):
            problems.append(f"the images of {data.name} have {channels} channels, but the model {len(processor.mean)}")
        return problems

    def cut_notes(
        self, data: ImageData, load_processor: Callable[[ImageData], object], *, max_length: int
    ) -> Iterator[str]:
        yield from ()  # images are not cut

    def classes(self, configuration: PretrainedConfig) -> int:
        return int(configuration.num_labels)

    def encode(self, processor: ImageProcessor, examples: ImageSet, *, max_length: int) -> ImageSet:
        return examples  # pixels are converted batch by batch on the device

    def lengths(self, items: ImageSet) -> list[int]:
        return [1] * len(items)

    def supervised(self, items: ImageSet) -> list[int]:
        return [1] * len(items)

    def collate(
        self, items: ImageSet, indices: Sequence[int], *, processor: ImageProcessor, device: torch.device | str
    ) -> ImageBatch:
        return collate(items, indices, processor=processor, device=device)

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
        from trainables.scoring.classification import ClassificationEvaluator

        score = partial(evaluate_items, self, processor=processor, batch_size=batch_size)
        return ClassificationEvaluator(data, score, classes=classes)
