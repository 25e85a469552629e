"""What differs between language models and image classifiers: one object for each kind of data, all else is shared.

A modality turns examples into *items* (one per example, opaque to everybody else), items into batches, and batches into
:class:`~trainables.predictions.Predictions`. An image is a sequence of one supervised position: ``S = 1`` and ``V`` is
the number of classes, so that forget objectives, weightings, AutoLR, fine-tuning and losses are the same code for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trainables.objectives.base import Reference
from trainables.predictions import Predictions

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trainables.scoring.measured import Measured
    from trainables.scoring.model_scores import RetainValues


class ModelEvaluator(Protocol):
    """Scores models on one unlearning problem.

    Attributes:
        random_guess: the loss of a uniform guess, in nats.
        retain_loss_se: the standard error of the last retain loss; NaN before there is one.
        retain_agreement: the share of the retain sample's answers that the last model would give itself, at the last
            losses (:func:`trainables.metrics.losses.agreement`).
    """

    random_guess: float
    retain_loss_se: float
    retain_agreement: float

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """The losses reported after every epoch."""

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

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """What metrics that compare with a retain model need of it; ``key`` and ``path`` name it."""


class Modality(Protocol):
    """How one kind of data is read, batched and scored; a *processor* is a tokenizer or an image processor.

    Attributes:
        name: what data sets, models and data call it.
        models: its models in words, in the plural: language models.
        task: what they do, in the words of model cards and transformers' pipelines.
        unit: what a loss is a mean over.
        offline_model, offline_dataset: the pair that needs no network.
        unused_fields: the fields of a trial that mean nothing here, each with the reason.
        lacks: what an objective may need of the target that its models do not have, in words.
    """

    name: ClassVar[str]
    models: ClassVar[str]
    task: ClassVar[str]
    unit: ClassVar[str]
    offline_model: ClassVar[str]
    offline_dataset: ClassVar[str]
    unused_fields: ClassVar[Mapping[str, str]]
    lacks: ClassVar[Mapping[Reference, str]]

    def with_template(self, template: str) -> Modality:
        """The modality for models that are asked so; where nothing is asked in words, itself."""

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        """What a folder lacks to be a model of this kind, with its processor unless it is to be made from the data."""

    def load_base(
        self, name: str, folder: Path | str | None, data: Any, *, seed: int = 0
    ) -> tuple[PreTrainedModel, Any]:
        """The model that a target of ``data`` is trained from, and its processor.

        It is the one in ``folder``, or where there is none the registered model called ``name``, made here with
        weights of ``seed``. Raises LoadError.
        """

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

    def supervised(self, items: Any) -> Sequence[int]:
        """How many positions of each item a loss is taken at."""

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
