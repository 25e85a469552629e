"""Evaluate models of any modality on one unlearning task."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from trainables import plugins
from trainables.data import DataError, TaskData
from trainables.metrics.item_mean import ITEM_SCORES, ItemMean
from trainables.metrics.losses import ItemLosses, agreement, standard_error
from trainables.metrics.registry import LOSS_METRICS, METRICS, SETS
from trainables.models.weight_changes import WeightChanges, copied_weights, weight_changes
from trainables.saved_state import kept_random_states

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from transformers import PreTrainedModel

    from trainables.attacks.attack import Attack

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""The per-item values by evaluation set and column, as JSON values.

The key ``scores`` has the values of each metric that is a mean over items (:meth:`ItemMean.to_json`).
"""

TargetModel: TypeAlias = "Callable[[], AbstractContextManager[PreTrainedModel]]"
"""A function whose result gives the target's model while its ``with`` block runs."""

K = TypeVar("K")
V = TypeVar("V")


class LazyDict(dict[K, V]):
    """A dictionary that computes a missing value with ``compute(key)``.

    ``key in values``, ``values.get(key)`` and iteration do not compute values. They only find values that have been
    computed.
    """

    def __init__(self, compute: Callable[[K], V]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: K) -> V:
        self[key] = value = self._compute(key)
        return value


@dataclass(frozen=True, slots=True)
class Measurement:
    """The metrics of a model, the per-item values of these metrics, and the time for generating answers in seconds."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


@dataclass(frozen=True, slots=True)
class RetainValues:
    """The values of the retain model that some metrics compare with the values of the evaluated model.

    Attributes:
        key: the content hash of the retain model and of its data.
        path: the folder of the retain model.
        log_truth_ratios: the log truth ratio of each forget item; empty without paraphrased and perturbed answers.
        forget_log_probs, holdout_log_probs: the mean ``log p`` per token of each item, in nats; empty without a holdout
            set.
        min_k_auc: the AUC of min-k% membership inference; None without a holdout set.
        metrics: the retain model's own fact recalls or accuracies, which a model reaches without the forget set; empty
            for plain texts.
        answers: the retain model's generated answers, by evaluation set; empty for plain texts.
    """

    key: str
    path: str
    log_truth_ratios: tuple[float, ...]
    forget_log_probs: tuple[float, ...]
    holdout_log_probs: tuple[float, ...]
    min_k_auc: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    answers: ItemLog = field(default_factory=dict)


class MetricError(DataError):
    """A requested metric cannot be measured on the data. The message is for the user."""


class MetricFailed(RuntimeError):
    """A plug-in's metric or attack raised an error. The message names the metric or attack, the file and the line."""

    exit_code = 1


def select_metrics(
    names: Sequence[str], data: TaskData, *, retain_model: bool = True, target: bool = True
) -> tuple[str, ...]:
    """Return the names of the metrics to measure on the data, in the order of ``METRICS``. The losses are not included.

    Args:
        names: metrics or sets of metrics; empty for the default set.
        data: the data of the task. A metric of a set is omitted if it cannot be measured on the data.
        retain_model: whether a retain model exists or can be trained.
        target: whether the model can be compared with the target.

    Raises:
        MetricError: a metric in ``names``, or every metric of a set in ``names``, cannot be measured.
    """
    needs_by_metric = {
        name: metric.unmet_needs(data, retain_model=retain_model, target=target) for name, metric in METRICS.items()
    }
    unmet_needs = {name: needs for name, needs in needs_by_metric.items() if needs}
    metrics_by_name = {name: SETS.get(name, (name,)) for name in names or ("default",)}
    problems: list[str] = []
    impossible_names: set[str] = set()
    selected_names: set[str] = set()
    for requested_name, metrics in metrics_by_name.items():
        selected_names.update(metrics)
        if all(metric in unmet_needs for metric in metrics):
            problems.append(f"{requested_name} needs {unmet_needs[metrics[0]]}")
            impossible_names.update(metrics)
    if problems:
        possible = [item for name, item in METRICS.items() if name not in unmet_needs]
        if all(METRICS[name].attack for name in impossible_names):
            noun, others = "attacks", dict.fromkeys(item.attack for item in possible if item.attack)
        else:
            noun, others = "metrics", dict.fromkeys(item.name for item in possible if not item.attack)
        raise MetricError(
            f"some requested {noun} cannot be measured on the data set {data.name}: {'; '.join(problems)}; {noun} that "
            f"can be measured: {', '.join(others)}"
        )
    selected_names -= unmet_needs.keys()
    return tuple(name for name, metric in METRICS.items() if name in selected_names and not metric.loss)


def generated_answers(items: ItemLog) -> ItemLog:
    """Return the columns with the generated answers and their key facts."""
    names = ("generated_text", "true_facts", "told_facts")
    return {
        set_name: {name: columns[name] for name in names if name in columns}
        for set_name, columns in items.items()
        if "generated_text" in columns
    }


def item_counts(items: ItemLog) -> dict[str, int]:
    """Return the number of items with a value for each metric that is a mean over items."""
    counts = {}
    scores: Mapping[str, Any] = items.get(ITEM_SCORES, {})
    for name, parts in scores.items():
        sizes = [sum(count > 0 for count in part.get("counts", [1] * len(part["totals"]))) for part in parts]
        counts[name] = min(sizes, default=0)
    return {name: count for name, count in counts.items() if count}


class Scores(ABC):
    """The per-item values of one model. The model must not change, because a value is computed when it is first used.

    Attributes:
        evaluator: the evaluator that returned the object.
        retain: the values of the retain model; None if no metric needs them.
        target: gives the target's model; None if the model cannot be compared with the target.
        random_guess: the loss of a uniform guess, in nats.
        item_means: the measured metrics that are means over items, by name.
    """

    def __init__(
        self,
        evaluator: ModelEvaluator,
        model: PreTrainedModel,
        retain: RetainValues | None,
        target: TargetModel | None,
    ) -> None:
        self._model = model
        self.evaluator = evaluator
        self.retain = retain
        self.target = target
        self.random_guess = evaluator.random_guess
        self.item_means: dict[str, ItemMean] = {}
        self._data = evaluator.data
        self._after_attacks: dict[str, Mapping[str, float]] = {}

    @property
    @abstractmethod
    def forget_losses(self) -> ItemLosses:
        """The losses of each example in the forget set."""

    @property
    @abstractmethod
    def retain_losses(self) -> ItemLosses:
        """The losses of each example on which the retain loss is evaluated."""

    @abstractmethod
    def items(self) -> ItemLog:
        """Return all per-item values that have been computed so far."""

    @property
    def generation_seconds(self) -> float:
        return 0.0

    def generate_for(self, metrics: Sequence[str]) -> None:  # noqa: B027
        """Generate the answers that metrics of told facts and words need in common batches, which saves time.

        Models that generate no answers ignore the call.
        """

    @property
    def retain_loss_se(self) -> float:
        """The standard error of the retain loss, in nats."""
        return standard_error(self.retain_losses)

    @property
    def retain_agreement(self) -> float:
        return agreement(self.retain_losses)

    @cached_property
    def weight_changes(self) -> WeightChanges:
        """The changes of the model's weights since the target."""
        assert self.target is not None
        weights = copied_weights(self._model)  # because the model may lend its memory to the target
        with self.target() as target:
            return weight_changes(weights, target)

    @property
    def model(self) -> PreTrainedModel:
        """The evaluated model."""
        return self._model

    def after(self, attack: Attack) -> Mapping[str, float]:
        """Return the values of an attack's metrics by name. The attack runs at the first call.

        The model and the global states of the random generators are the same afterwards.
        """
        if attack.name not in self._after_attacks:
            with kept_random_states():
                self._after_attacks[attack.name] = attack.run(self)
        return self._after_attacks[attack.name]

    def loss_metrics(self) -> dict[str, float]:
        """Return the value of each metric that is a loss, in nats per token or image."""
        return self._values(LOSS_METRICS)

    def measure(self, names: Sequence[str] = ()) -> Measurement:
        """Measure metrics, given as names of metrics and of metric sets. Without names, measure the default set.

        Raises:
            MetricError: a metric cannot be measured on the data, or the retain model is missing.
        """
        has_retain_model, has_target = self.retain is not None, self.target is not None
        selected_names = select_metrics(names, self._data, retain_model=has_retain_model, target=has_target)
        metrics = self._values(selected_names)
        items = self.items()
        if self.item_means:
            items[ITEM_SCORES] = {name: mean.to_json() for name, mean in self.item_means.items()}
        return Measurement(metrics, items, self.generation_seconds)

    def measure_cheap(self, names: Sequence[str] = ()) -> dict[str, float]:
        """Measure those of the metrics of :meth:`measure` that need no pass besides that of the losses."""
        has_retain_model, has_target = self.retain is not None, self.target is not None
        selected_names = select_metrics(names, self._data, retain_model=has_retain_model, target=has_target)
        return self._values(name for name in selected_names if METRICS[name].each_evaluation)

    def _values(self, names: Iterable[str]) -> dict[str, float]:
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> float:
        try:
            value = METRICS[name].measure(self)
            if isinstance(value, ItemMean):
                self.item_means[name] = value
            return float(value)
        except Exception as error:
            attack = METRICS[name].attack
            kind, entry = ("attack", attack) if attack else ("metric", name.removesuffix("_distance"))
            plugin = plugins.owner(kind, entry)
            is_the_plugins_fault = not hasattr(error, "exit_code") and type(error).__name__ != "OutOfMemoryError"
            if plugin is None or not is_the_plugins_fault:
                raise
            subject = f"{kind} {attack or name} of plug-in"
            raise MetricFailed(plugins.error_text(plugin.path, error, subject=subject)) from error


class ModelEvaluator(ABC):
    """Evaluates models on one unlearning task.

    Attributes:
        random_guess: the loss of a uniform guess, in nats.
        attack_settings: the settings of attacks by name (:func:`trainables.target.target.attack_settings`).
    """

    def __init__(self, data: TaskData, *, classes: int) -> None:
        self.random_guess = math.log(classes)
        self.data = data
        self.attack_settings: Mapping[str, Any] = {}

    @abstractmethod
    def scores(
        self, model: PreTrainedModel, *, retain: RetainValues | None = None, target: TargetModel | None = None
    ) -> Scores:
        """Return the scores of a model.

        Args:
            retain: needed only if a metric compares with the retain model.
            target: needed only if a metric compares with the target. All calls must give the same target.
        """

    @abstractmethod
    def memorised(self, model: PreTrainedModel) -> bool:
        """Return whether a model has memorised its training data. The modality defines the criterion."""

    @abstractmethod
    def reference(self, model: PreTrainedModel, *, key: str, path: str) -> RetainValues:
        """Return the values of the retain model ``model``. ``key`` is its content hash, and ``path`` is its folder."""
