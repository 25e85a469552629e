"""The interface of a modality: everything that differs between language models and image classifiers.

A modality converts examples to *items* (one per example, opaque to other code), items to batches, and batches to
:class:`~trainables.predictions.Predictions`. An image is a sequence with one supervised position: ``S = 1`` and ``V``
is the number of classes, so that objectives, weightings, AutoLR, fine-tuning and losses share their code.
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
    """Scores models on one unlearning task.

    Attributes:
        random_guess: the loss of a uniform guess, in nats.
        retain_loss_se: the standard error of the last retain loss; NaN before the first one.
        retain_agreement: the share of the retain sample's answers that the model would have generated itself, at the
            last call of ``losses`` (:func:`trainables.metrics.losses.agreement`).
    """

    random_guess: float
    retain_loss_se: float
    retain_agreement: float

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Return the losses that are reported after every epoch."""

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """Return the metrics called ``names`` (the default set if empty), with their items; raise MetricError.

        ``unchanged``: the model has not changed since the last call of :meth:`losses`.
        """

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Return the retain model's values that metrics need; ``key`` and ``path`` name the retain model."""


class Modality(Protocol):
    """Reads, batches and scores one kind of data; a *processor* is a tokenizer or an image processor.

    Attributes:
        name: the name in data sets, models and data.
        models: the kind of models in messages, in the plural: language models.
        task: the task's name in model cards and transformers' pipelines.
        unit: what a loss is averaged over.
        offline_model, offline_dataset: the pair that needs no network.
        unused_fields: the fields of a trial without meaning here, each with the reason.
        lacks: the needs of objectives that these models cannot meet, in words.
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
        """Return the modality with a prompt template; itself if its models have no prompts."""

    def folder_problems(self, folder: Path, *, processor: bool = True) -> list[str]:
        """Return why a folder is not a model of this kind, with its processor unless the processor is made from the
        data."""

    def load_base(
        self, name: str, folder: Path | str | None, data: Any, *, seed: int = 0
    ) -> tuple[PreTrainedModel, Any]:
        """Return the model from which a target of ``data`` is trained, and its processor.

        The model is loaded from ``folder``; without a folder it is the registered model called ``name``, made with
        weights of ``seed``. Raises LoadError.
        """

    def load_model(self, folder: Path | str) -> PreTrainedModel:
        """Return the model in a folder, in float32; raise LoadError."""

    def load_processor(self, folder: Path | str) -> Any:
        """Return its processor, which ``save_pretrained(folder)`` writes; raise LoadError."""

    def classes(self, configuration: Any) -> int:
        """Return ``V``, the number of tokens or labels in a ``transformers`` configuration."""

    def encode(self, processor: Any, examples: Any, *, max_length: int) -> Any:
        """Return the items of some examples, in order; raise DataError if an example does not fit."""

    def lengths(self, items: Any) -> Sequence[int]:
        """Return the length of each item, by which batches are formed."""

    def supervised(self, items: Any) -> Sequence[int]:
        """Return the number of positions with a loss in each item."""

    def collate(self, items: Any, indices: Sequence[int], *, processor: Any, device: torch.device | str) -> Any:
        """Return the items at ``indices`` as one batch on ``device``."""

    def predict(self, model: PreTrainedModel, batch: Any) -> Predictions:
        """Run one forward pass over a batch."""

    def nll(
        self, model: PreTrainedModel, items: Any, *, processor: Any, batch_size: int, device: torch.device | str
    ) -> tuple[list[float], list[int]]:
        """Return per item, in order, the summed NLL of its supervised positions (nats) and their count; in eval mode.
        Return per item, in order, the summed NLL of its supervised positions (nats) and their count; in eval mode."""

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
        """Return the evaluator of models on ``data``."""

    def memorised(self, evaluator: Any, model: PreTrainedModel) -> bool:
        """Return whether a model with a low training loss has memorised its data, as :meth:`evaluator` measures it."""
