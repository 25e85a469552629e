"""The problem a spec names, looked up once at the door: the rest of this room works with it and not with the spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data import DataError, ProblemData, load_data
from trainables.modality import Modality, ModelEvaluator, modality_of
from trainables.models.hub_cache import hub_commit
from trainables.models.registry import ModelInfo, TargetRecipe, find_model
from trainables.plugins import digests
from trainables.scoring.choice import metrics_of
from trainables.spec import FIELDS, TrialSpec
from trainables.target.cache import FORMAT, digest, folder_digest
from trainables.template import CHAT
from trainables.templates import TEMPLATES

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CHAT_FILE = "chat_template.jinja"
"""Where newer model folders have the chat template; in others it is in the tokenizer's configuration."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is to be unlearned and of which model, and what that model is made from.

    Attributes:
        info: the base model's entry in the registry, or one made up for a hub id or a local folder.
        base_folder: the base model's folder, where one is given.
        target_path, retain_path: folders of a finished target and of a retain model, where they are given.
        recipe: how the target is fine-tuned.
        metrics: the metrics asked for by name, or sets of them.
        max_length, batch_size: of sequences in tokens, and of evaluations.
        seed: of the fine-tuning, and of weights that are made here.
    """

    info: ModelInfo
    base_folder: Path | None
    target_path: Path | None
    retain_path: Path | None
    recipe: TargetRecipe
    data: ProblemData
    metrics: tuple[str, ...]
    max_length: int
    batch_size: int
    seed: int = 0

    @cached_property
    def modality(self) -> Modality:
        """That of the data, for a model that is asked as this one is."""
        return modality_of(self.data, self.info.template)

    @cached_property
    def base(self) -> str:
        """What the base model is, whatever it is called: its files' digest, its commit, or the name of one made here.

        Raises:
            TargetError, LoadError: there is no such folder; the hub cannot be asked.
        """
        if self.base_folder is not None:
            return folder_digest(self.base_folder)
        hub_id = self.info.hub_id
        if hub_id is not None:
            return f"{hub_id}@{hub_commit(hub_id)}"
        return ":".join([self.info.name, str(hub_id), *digests([("model", self.info.name)])])

    @property
    def trained_key(self) -> str:
        """What the fine-tuned target is called in the cache; known before it is trained."""
        return digest(FORMAT, self.base, self.recipe, self.data.full, self.max_length, self.template_key, *self._seeded)

    @property
    def retain_key(self) -> str:
        """The same of the retain model: the full set is what its tokenizer may be made from."""
        sets = (self.data.retain, self.data.full)
        return digest(
            *(FORMAT, "retain", self.base, self.recipe, *sets, self.max_length, self.template_key), *self._seeded
        )

    @property
    def template_key(self) -> str:
        """What the template is: of a chat template that its folder has in a file of its own, that file's content."""
        folder = self.target_path or self.base_folder
        if self.info.template != CHAT or folder is None or not (folder / CHAT_FILE).is_file():
            return self.info.template
        return f"{CHAT}:{digest((folder / CHAT_FILE).read_text(encoding='utf-8'))}"

    def measured_by(self, names: Sequence[str]) -> list[str]:
        """The digests of plug-ins whose metrics are among ``names``, which caches must not take for others."""
        return digests(("metric", name.removesuffix("_distance")) for name in names)

    @property
    def _seeded(self) -> tuple[int, ...]:
        return (self.seed,) if self.seed else ()  # what was made before there was a seed keeps its name

    def measured(self) -> tuple[str, ...]:
        """The metrics to measure, which leave out those of a retain model that is not there and cannot be trained.

        Beside a finished target, whose base nobody knows, it cannot.

        Raises:
            MetricError: a metric asked for by name cannot be had of the data.
        """
        may_have_retain_model = self.retain_path is not None or self.target_path is None
        return metrics_of(self.metrics, self.data, retain_model=may_have_retain_model)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Of the sets of metrics asked for, those that only a retain model would give; raises MetricError."""
        return tuple(name for name in metrics_of(self.metrics, self.data) if name not in self.measured())

    def evaluator(
        self, model: PreTrainedModel, processor: Any, *, device: torch.device | str, data: ProblemData | None = None
    ) -> ModelEvaluator:
        """What scores a model with its processor on the data, or on others of the kind."""
        return self.modality.evaluator(
            data or self.data,
            processor,
            classes=self.modality.classes(model.config),
            max_length=self.max_length,
            batch_size=self.batch_size,
            device=device,
        )


def problem_of(spec: TrialSpec, *, recipe: TargetRecipe | None = None) -> Problem:
    """The spec's problem; its method and learning rate do not matter. ``recipe`` defaults to :func:`target_recipe`.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or there is no such template.
    """
    places = (spec.model_path, spec.target_path, spec.retain_path)
    base, target, retain = (None if place is None else Path(place) for place in places)
    if wrong := FIELDS["template"].problem(spec.template):
        raise DataError(wrong)
    info = find_model(spec.model)
    return Problem(
        info=info if spec.template is None else replace(info, template=TEMPLATES[spec.template].text),
        base_folder=base,
        target_path=target,
        retain_path=retain,
        recipe=recipe or target_recipe(spec),
        data=load_data(
            spec.dataset,
            forget_split=spec.forget_split,
            forget_class=spec.forget_class,
            data_dir=Path(spec.data_dir) if spec.data_dir else None,
            limit=spec.limit,
            seed=spec.data_seed,
        ).with_loss_examples(spec.loss_examples),
        metrics=spec.metrics,
        max_length=spec.max_length,
        batch_size=spec.eval_batch_size,
        seed=spec.target_seed,
    )


def target_recipe(spec: TrialSpec) -> TargetRecipe:
    """The model's own recipe, with what the spec sets itself; an epoch count set so is run to its end."""
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
