"""Evaluate models of any modality on one unlearning task: losses after every epoch, expensive metrics at the end."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trainables.metrics.losses import SetLosses, agreement, standard_error
from trainables.metrics.registry import LOSS_METRICS, METRICS
from trainables.scoring.chosen_metrics import chosen_metrics

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.data import TaskData
    from trainables.scoring.model_scores import RetainValues

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""The per-item values by evaluation set and column, as JSON values; see :mod:`trainables.scoring.item_log`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, their per-item values, and the time that answer generation took, in seconds."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


def generated_answers(items: ItemLog) -> ItemLog:
    """Return only the column with the generated texts, for each part that has this column."""
    name = "generated_text"
    return {part: {name: columns[name]} for part, columns in items.items() if name in columns}


class Scores(ABC):
    """The per-item values of one model. A value is computed when it is first used."""

    @property
    def generation_seconds(self) -> float:
        """The time that answer generation took, in seconds."""
        return 0.0

    @abstractmethod
    def set_losses(self, random_guess: float) -> SetLosses:
        """Return the losses of the forget set and of the retain sample."""

    @abstractmethod
    def known(self) -> Mapping[str, Any]:
        """Return the computed values. If the model has not changed, :meth:`ModelEvaluator.scores` can reuse them."""

    @abstractmethod
    def items(self) -> ItemLog:
        """Return the values that were computed so far."""


class ModelEvaluator(ABC):
    """Evaluates models on one unlearning task.

    Attributes:
        random_guess: the loss of a uniform guess over ``classes`` tokens or labels, in nats. The losses in
            ``forget_loss_capped`` are capped at this value.
        retain_loss_se: the standard error of the retain loss at the last call of :meth:`losses`; NaN before the first
            call.
        retain_agreement: the :func:`~trainables.metrics.losses.agreement` on the retain sample at the last call of
            :meth:`losses`; NaN before the first call.
    """

    def __init__(self, data: TaskData, *, classes: int) -> None:
        self.random_guess = math.log(classes)
        self.retain_loss_se = self.retain_agreement = math.nan
        self._data = data
        self._known: Mapping[str, Any] = {}

    @abstractmethod
    def scores(
        self, model: PreTrainedModel, *, retain: RetainValues | None = None, known: Mapping[str, Any] | None = None
    ) -> Scores:
        """Return the per-item values of a model. Values in ``known`` are not computed again."""

    @abstractmethod
    def memorised(self, model: PreTrainedModel) -> bool:
        """Return whether a model has memorised its training data."""

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Return the losses that are reported after every epoch, in nats."""
        scores = self.scores(model)
        losses = scores.set_losses(self.random_guess)
        self._known = scores.known()
        self.retain_loss_se, self.retain_agreement = standard_error(losses.retain), agreement(losses.retain)
        return _values(LOSS_METRICS, losses)

    def measure(
        self,
        model: PreTrainedModel,
        names: Sequence[str] = (),
        *,
        retain: RetainValues | None = None,
        unchanged: bool = False,
    ) -> Measured:
        """Return the metrics ``names`` (the default set if empty), and the per-item values that they are computed from.

        If ``unchanged`` is true, the values of the last call of :meth:`losses` are reused, so the model must not have
        changed since then. Raises MetricError if the data do not allow one of the metrics, or if a needed retain model
        is missing.
        """
        chosen = chosen_metrics(names, self._data, retain_model=retain is not None)
        scores = self.scores(model, retain=retain, known=self._known if unchanged else None)
        metrics = _values(chosen, scores)
        return Measured(metrics, scores.items(), scores.generation_seconds)

    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Return the values of the retain model ``model`` that metrics need; ``key`` and ``path`` identify the model.

        Raises:
            NotImplementedError: no metric of this modality needs a retain model.
        """
        raise NotImplementedError


def _values(names: Iterable[str], scores: object) -> dict[str, float]:
    return {name: float(METRICS[name].measure(scores)) for name in names}
