"""The retain model: trained as the target was, on the retain set alone; what forget quality and PrivLeak compare with.

It has the target's base model, processor, recipe and seed, and the retain set in place of the full set: the same number
of epochs, and so proportionally fewer steps. Under a recipe that stops when the data are memorised, the retain set is
what must be memorised (mean loss below 0.05, ROUGE-L recall on its sample above 0.95); the forget set never is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.durable import write_whole
from trainables.data import ProblemData
from trainables.metrics.registry import needs_retain_model
from trainables.modality import modality_of
from trainables.models.registry import TargetRecipe
from trainables.scoring.choice import metrics_of
from trainables.scoring.model_scores import RetainValues
from trainables.spec import TrialSpec
from trainables.target import cache_keys as keys
from trainables.target import target as targets
from trainables.target.finetune import Progress, TargetError
from trainables.target.problem import load_problem

if TYPE_CHECKING:
    import torch


def make_retain_model(
    spec: TrialSpec,
    *,
    recipe: TargetRecipe | None = None,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Path:
    """The folder of the spec's retain model, whatever the data: in the cache, or trained now.

    Raises:
        DataError, TargetError, LoadError: with a plain sentence.
    """
    return prepare_retain(
        spec,
        load_problem(spec),
        recipe=recipe or targets.target_recipe(spec),
        cache=cache or targets.cache_folder(),
        device=device or targets.default_device(),
        on_progress=on_progress,
    )


def metrics_and_retain(
    spec: TrialSpec,
    data: ProblemData,
    *,
    recipe: TargetRecipe,
    cache: Path,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> tuple[tuple[str, ...], RetainValues | None]:
    """The metrics the spec asks for, and :func:`retain_values` where one of them compares with the retain model.

    Raises:
        MetricError: a metric asked for by name cannot be had of the data.
        TargetError, LoadError: with a plain sentence.
    """
    chosen = metrics_of(spec.metrics, data, retain_model=spec.may_have_retain_model)
    if not needs_retain_model(chosen):
        return chosen, None
    return chosen, retain_values(spec, data, recipe=recipe, cache=cache, device=device, on_progress=on_progress)


def retain_values(
    spec: TrialSpec,
    data: ProblemData,
    *,
    recipe: TargetRecipe,
    cache: Path,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> RetainValues:
    """What metrics need of the retain model of a spec; computed once per model and data.

    The model is the folder ``spec.retain_path``, or else :func:`prepare_retain`'s.

    Raises:
        TargetError, LoadError: with a plain sentence; so it is where only a finished target was given, whose base model
            nobody knows.
    """
    if spec.retain_path is not None:
        folder = Path(spec.retain_path)
        identity = keys.folder_digest(folder)
    else:
        folder = prepare_retain(spec, data, recipe=recipe, cache=cache, device=device, on_progress=on_progress)
        identity = folder.name
    key = keys.digest(keys.FORMAT, "retain", identity, data, spec.max_length, targets.model_info(spec).template)
    stored = cache / "retain-values" / f"{key}.json"
    if not stored.is_file():
        write_whole(stored, json.dumps(asdict(_values(spec, data, folder, key, device=device))))
    found = json.loads(stored.read_text())
    return RetainValues(
        key=key,
        path=str(folder.resolve()),
        log_truth_ratios=tuple(found["log_truth_ratios"]),
        forget_log_probs=tuple(found["forget_log_probs"]),
        holdout_log_probs=tuple(found["holdout_log_probs"]),
        min_k_auc=found["min_k_auc"],
    )


def prepare_retain(
    spec: TrialSpec,
    data: ProblemData,
    *,
    recipe: TargetRecipe,
    cache: Path,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> Path:
    """The folder of the retain model: in the cache, or trained now, going on where a killed training was last saved.

    Raises:
        TargetError, LoadError: with a plain sentence.
    """
    if spec.target_path is not None:
        raise TargetError(
            "a retain model cannot be trained beside --target-path: the target's base model is not known; give the "
            "base model with --model-path, or the retain model's folder with --retain-model"
        )
    folder = retain_folder(spec, data, recipe=recipe, cache=cache)
    if not (folder / "target.json").is_file():
        targets.train_target(
            spec,
            data.retain_problem(),
            recipe,
            folder,
            base_data=data,
            device=device,
            on_progress=lambda step: on_progress(replace(step, text=targets.RETAIN + step.text)),
        )
    return folder


def retain_folder(spec: TrialSpec, data: ProblemData, *, recipe: TargetRecipe, cache: Path) -> Path:
    """Where the retain model is cached: named by base model, recipe and data, the full set being the tokenizer's."""
    name = keys.digest(
        keys.FORMAT,
        "retain",
        keys.base_identity(spec),
        recipe,
        data.retain,
        data.full,
        spec.max_length,
        targets.model_info(spec).template,
    )
    return cache / "targets" / name


def _values(spec: TrialSpec, data: ProblemData, folder: Path, key: str, *, device: torch.device | str) -> RetainValues:
    modality = modality_of(data, targets.model_info(spec).template)
    model = modality.load_model(folder).to(device)
    evaluator = modality.evaluator(
        data,
        modality.load_processor(folder),
        classes=modality.classes(model.config),
        max_length=spec.max_length,
        batch_size=spec.eval_batch_size,
        device=device,
    )
    return evaluator.reference(model, key=key, path=str(folder))
