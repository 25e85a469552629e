"""Prepare the target and the retain model of a spec, from the cache or by training them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.device import default_device
from trainables.metrics.registry import DEFAULT_SET
from trainables.modality import ModelEvaluator
from trainables.models.checkpoints import loading
from trainables.models.registry import TargetRecipe
from trainables.scoring.chosen_metrics import chosen_metrics
from trainables.scoring.measured import generated_answers
from trainables.spec import TrialSpec
from trainables.target.cache import FORMAT, Cache, digest, folder_digest
from trainables.target.finetune import Progress
from trainables.target.retain_model import retain_model, retain_values
from trainables.target.target import Target
from trainables.target.target_spec import TargetSpec, target_spec_of
from trainables.target.training import trained

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def prepare_target(
    spec: TrialSpec,
    *,
    recipe: TargetRecipe | None = None,
    device: torch.device | str | None = None,
    cache: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Target:
    """Return the target for a spec: from the cache, from ``target_path``, or fine-tuned now.

    Args:
        recipe: how to fine-tune; default :func:`~trainables.target.target_spec.target_recipe`.
        device: where to train and score; default the GPU if available. Not used if everything is cached.
        cache: default :func:`~trainables.target.cache.cache_folder`.
        on_progress: called after every epoch.

    Raises:
        DataError, TargetError, LoadError: with a message for the user.
    """
    return target_of(target_spec_of(spec, recipe=recipe), cache=Cache(cache), device=device, on_progress=on_progress)


def target_of(
    target_spec: TargetSpec,
    *,
    cache: Cache,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Target:
    """Return the target of a target spec, as :func:`prepare_target` does.

    Raises:
        TargetError, LoadError: with a message for the user.
        NotCached: the cache must not compute, and something is missing.
    """
    retain = retain_values(target_spec, cache=cache, device=device, on_progress=on_progress)
    if target_spec.target_path is not None:
        folder, name = target_spec.target_path, folder_digest(target_spec.target_path)
    else:
        name = target_spec.trained_key
        folder = cache.model(name)
        trained(target_spec, folder, data=target_spec.data, device=device, on_progress=on_progress)
    key = digest(FORMAT, name, target_spec.data, target_spec.max_length, target_spec.template_key)

    @once
    def loaded() -> tuple[PreTrainedModel, Any, ModelEvaluator]:
        place = device or default_device()
        model = target_spec.modality.load_model(folder).to(place)
        processor = target_spec.modality.load_processor(folder)
        return model, processor, target_spec.evaluator(model, processor, device=place)

    def own_scores() -> dict[str, object]:
        model, processor, evaluator = loaded()
        forget = target_spec.modality.encode(processor, target_spec.data.forget, max_length=target_spec.max_length)
        reference, _ = target_spec.modality.nll(
            model, forget, processor=processor, batch_size=target_spec.batch_size, device=model.device
        )
        scored = evaluator.measure(model)
        return {
            "baseline": {**evaluator.losses(model), **scored.metrics},
            "reference_nll": reference,
            "answers": generated_answers(scored.items),
        }

    def measured(names: tuple[str, ...], of: str) -> dict[str, float]:
        def compute() -> dict[str, float]:
            model, _, evaluator = loaded()
            return dict(evaluator.measure(model, names, retain=retain).metrics)

        return cache.note(f"baselines/{digest(FORMAT, of, names, *target_spec.measured_by(names))}", compute)

    # Cached, so that the driver of a sweep with a known target does not import transformers.
    shape = cache.note(f"shapes/{name}", lambda: {"classes": _classes(target_spec, folder)})
    own = target_spec.measured_by(DEFAULT_SET)
    known = cache.note(f"baselines/{digest(key, own) if own else key}", own_scores)
    baseline = known["baseline"]
    # An earlier version with fewer default metrics may have written the note.
    default = chosen_metrics((), target_spec.data, retain_model=False)
    if missing := tuple(name for name in default if name not in baseline):
        baseline |= measured(missing, key)
    if target_spec.metrics:
        key = key if retain is None else digest(FORMAT, key, retain.key)
        baseline |= measured(target_spec.measured(), key)
    return Target(
        key=key,
        path=str(folder.resolve()),
        data=target_spec.data,
        vocabulary_size=shape["classes"],
        baseline=baseline,
        reference_nll=tuple(known["reference_nll"]),
        template=target_spec.info.template,
        retain=retain,
        left_out=target_spec.left_out,
        answers=known.get("answers", {}),
    )


def make_retain_model(
    spec: TrialSpec,
    *,
    recipe: TargetRecipe | None = None,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Path:
    """Return the folder of the spec's retain model, from the cache or trained now.

    Raises:
        DataError, TargetError, LoadError: with a message for the user.
    """
    return retain_model(
        target_spec_of(spec, recipe=recipe),
        cache=Cache(cache),
        device=device,
        on_progress=on_progress,
    )


def _classes(target_spec: TargetSpec, folder: Path) -> int:
    from transformers import AutoConfig

    with loading(folder):
        configuration = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return target_spec.modality.classes(configuration)
