"""The specification of a target, and the prepared target.

The target is the fine-tuned model from which all trials start. The target's metrics are the baseline for every trial.
The target's log-likelihoods of the forget set are stored, so that NPO needs no second model in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data import DataError, TaskData, load_data
from trainables.metrics.registry import METRICS
from trainables.modality import Modality, ModelEvaluator, modality_of
from trainables.models.hub_cache import hub_commit
from trainables.models.registry import TEMPLATES, ModelInfo, TargetRecipe, find_model
from trainables.plugins import digests
from trainables.question_sets import question_sets
from trainables.scoring.base import ItemLog, RetainValues, select_metrics
from trainables.spec import FIELDS, TrialSpec
from trainables.target.cache import FORMAT, digest, folder_digest
from trainables.template import QUESTION_ANSWER, chat_on, is_chat

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHAT_FILE = "chat_template.jinja"
"""The file with the chat template. In older model folders, the tokenizer's configuration contains the template."""


RELEARN_LR = 2e-5
"""The learning rate of attacks that train if LoRA was used for the target or for the trials, but not for both."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target that all trials of a sweep share. Each worker receives all fields.

    Attributes:
        key: a hash of the model, the data, the maximum length, the template and the retain model. The hash of every
            trial's spec includes the key.
        path: the model's folder, which ``from_pretrained`` can load.
        vocabulary_size: ``|V|``, the model's number of output classes: tokens, or labels of images.
        baseline: the target's own metrics.
        reference_nll: the target's summed NLL of each forget example, in the order of ``data.forget``.
        max_length: the maximum length of training sequences, in tokens.
        template: the model's prompt template (see :mod:`trainables.template`).
        retain: the values of the retain model; None if no requested metric compares with the retain model.
        left_out: the requested metrics that are not measured, because no retain model is available.
        answers: the target's generated answers, by evaluation set; empty if none were generated.
        item_counts: the number of items of each metric that is a mean over items.
        key_without_retain: the key without the retain model.
    """

    key: str
    path: str
    data: TaskData
    vocabulary_size: int
    baseline: dict[str, float]
    reference_nll: tuple[float, ...]
    max_length: int
    template: str = QUESTION_ANSWER
    retain: RetainValues | None = None
    left_out: tuple[str, ...] = ()
    answers: ItemLog = field(default_factory=dict)
    item_counts: dict[str, int] = field(default_factory=dict)
    key_without_retain: str = ""


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """The data, the model to unlearn, and the settings for creating this model.

    Attributes:
        trial: the spec of any trial with this target. The trial's method and training settings are not used.
        info: the base model's entry in the registry, or a new entry for a hub id or a local folder.
        recipe: the recipe for fine-tuning the target.
    """

    trial: TrialSpec
    info: ModelInfo
    recipe: TargetRecipe
    data: TaskData

    @property
    def base_folder(self) -> Path | None:
        """The folder of the base model; None if the user gave no folder."""
        return None if self.trial.model_path is None else Path(self.trial.model_path)

    @property
    def target_path(self) -> Path | None:
        """The folder of a target that needs no fine-tuning; None if the user gave no folder."""
        return None if self.trial.target_path is None else Path(self.trial.target_path)

    @property
    def retain_path(self) -> Path | None:
        """The folder of a retain model; None if the user gave no folder."""
        return None if self.trial.retain_path is None else Path(self.trial.retain_path)

    @cached_property
    def modality(self) -> Modality:
        return modality_of(self.data, self.info.template)

    @cached_property
    def base(self) -> str:
        """A text that identifies the base model: the digest of its files, its hub commit, or its name."""
        if self.base_folder is not None:
            return folder_digest(self.base_folder)
        hub_id = self.info.hub_id
        if hub_id is not None:
            return f"{hub_id}@{hub_commit(hub_id)}"
        # The parts are the name, the hub id (None), and the digest of a plug-in.
        return ":".join([self.info.name, "None", *digests([("model", self.info.name)])])

    @property
    def trained_key(self) -> str:
        """The name of the fine-tuned target in the cache."""
        return digest(FORMAT, self.base, self.recipe, self.data.full, *self._settings)

    @property
    def retain_key(self) -> str:
        """The name of the retain model in the cache."""
        sets = (self.data.retain, self.data.full)  # the base model's tokenizer may be trained on the full set
        return digest(FORMAT, "retain", self.base, self.recipe, *sets, *self._settings)

    @property
    def template_key(self) -> str:
        """A text that identifies the template. For the chat template of a local model, the text includes a hash."""
        template = self.info.template
        if not is_chat(template):
            return template
        folder = self.target_path or self.base_folder
        if folder is None or not (folder / CHAT_FILE).is_file():
            return template
        return f"{template}:{digest((folder / CHAT_FILE).read_text(encoding='utf-8'))}"

    def metric_digests(self, names: Sequence[str]) -> list[str]:
        """Return the digests of what decides the values of metrics: plug-ins, and the settings of attacks."""
        attacks = {METRICS[name].attack for name in names} - {""}
        parts = [
            *(("metric", name.removesuffix("_distance")) for name in names),
            *(("attack", name) for name in attacks),
        ]
        return [*digests(parts), *([digest(sorted(attack_settings(self.trial).items()))] if attacks else [])]

    @property
    def _settings(self) -> tuple[object, ...]:
        settings = (self.trial.max_length, self.template_key)
        seed = self.trial.target_seed
        return settings if seed == 0 else (*settings, seed)  # the default seed 0 is not a part of the cache keys

    def metric_names(self, *, target: bool = True) -> tuple[str, ...]:
        """Return the names of the metrics to measure. ``target`` is whether models can be compared with the target.

        Metrics that need a retain model are left out if no retain model is available.

        Raises:
            MetricError: a metric that was requested by name cannot be measured on the data.
        """
        may_have_retain_model = self.retain_path is not None or self.target_path is None
        return select_metrics(self.trial.metrics, self.data, retain_model=may_have_retain_model, target=target)

    @property
    def left_out(self) -> tuple[str, ...]:
        requested_names = select_metrics(self.trial.metrics, self.data)
        measured_names = self.metric_names()
        return tuple(name for name in requested_names if name not in measured_names)

    def require_fit(self, model: PreTrainedModel, processor: Any) -> None:
        """Raise :class:`DataError` if the data do not fit the model."""
        problems = self.modality.fit_problems(model, processor, self.data, max_length=self.trial.max_length)
        if problems:
            raise DataError(*problems)

    def evaluator(self, model: PreTrainedModel, processor: Any, *, data: TaskData | None = None) -> ModelEvaluator:
        evaluator = self.modality.evaluator(
            data or self.data,
            processor,
            classes=self.modality.classes(model.config),
            max_length=self.trial.max_length,
            batch_size=self.trial.eval_batch_size,
            device=model.device,
        )
        evaluator.attack_settings = attack_settings(self.trial)
        return evaluator


def attack_settings(spec: TrialSpec) -> Mapping[str, Any]:
    """Return the settings of attacks by name.

    The learning rate is that of the target's fine-tuning by default. ``relearn_adapter`` is whether attacks that train
    a model train an adapter, as the trials do, instead of all weights.
    """
    recipe = target_recipe(spec)
    is_alike = (recipe.lora_rank is None) == (spec.lora_rank is None)
    rate = spec.relearn_lr or (recipe.lr if is_alike else RELEARN_LR)
    options = {name: getattr(spec, name) for name, item in FIELDS.items() if item.role == "attack"}
    return {**options, "relearn_lr": rate, "relearn_adapter": spec.lora_rank is not None}


def target_spec_of(spec: TrialSpec) -> TargetSpec:
    """Return the specification of the target of a trial.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or the template is unknown.
    """
    message = FIELDS["template"].problem(spec.template)
    if message:
        raise DataError(message)
    info = find_model(spec.model)
    if spec.template is not None:
        info = replace(info, template=TEMPLATES[spec.template].text)
    if spec.template_date is not None:
        info = replace(info, template=chat_on(spec.template_date))
    data = load_data(
        spec.dataset,
        forget_split=spec.forget_split,
        forget_class=spec.forget_class,
        data_dir=Path(spec.data_dir) if spec.data_dir else None,
        limit=spec.limit,
        seed=spec.data_seed,
    ).with_loss_examples(spec.loss_examples)
    if own_sets := question_sets():
        data = data.with_sets(**own_sets)
    return TargetSpec(trial=spec, info=info, recipe=target_recipe(spec), data=data)


def target_recipe(spec: TrialSpec) -> TargetRecipe:
    """Return the model's fine-tuning recipe with the changes that the spec sets.

    If the spec sets the number of epochs, training does not stop early.
    """
    recipe = find_model(spec.model).recipe
    if spec.target_epochs is not None:
        recipe = replace(recipe, epochs=spec.target_epochs, stop_when_memorised=False)
    if spec.target_lr is not None:
        recipe = replace(recipe, lr=spec.target_lr)
    if spec.target_batch_size is not None:
        recipe = replace(recipe, batch_size=spec.target_batch_size)
    if spec.target_lora_rank is not None:
        recipe = replace(recipe, lora_rank=spec.target_lora_rank or None)
    return recipe
