"""The retain model, trained like the target but on the retain set alone; forget quality and PrivLeak compare with it.

It has the target's base model, processor, recipe and seed. The number of epochs is the same, so there are
proportionally fewer steps. Under a recipe that stops when the data are memorised, the retain set must be memorised
(mean loss below 0.05, ROUGE-L recall on its sample above 0.95).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.device import default_device
from trainables.metrics.registry import needs_retain_model
from trainables.scoring.model_scores import RetainValues
from trainables.target.cache import FORMAT, Cache, digest, folder_digest, used
from trainables.target.finetune import Progress, TargetError
from trainables.target.target_spec import TargetSpec
from trainables.target.training import trained

if TYPE_CHECKING:
    import torch

RETAIN = "retain model, "
"""The start of the progress text of its training."""


def retain_model(
    target_spec: TargetSpec, *, cache: Cache, device: torch.device | str | None, on_progress: Callable[[Progress], None]
) -> Path:
    """Return the folder of the target's retain model, from the cache or trained now.

    Raises:
        TargetError, LoadError: with a message for the user; also if a finished target was given, because its base model
            is unknown.
    """
    if target_spec.target_path is not None:
        raise TargetError(
            "a retain model cannot be trained beside --target-path: the target's base model is not known; give the "
            "base model with --model-path, or the retain model's folder with --retain-model"
        )
    return trained(
        target_spec,
        cache.model(target_spec.retain_key),
        data=target_spec.data.retain_task(),
        device=device,
        on_progress=lambda step: on_progress(replace(step, text=RETAIN + step.text)),
    )


def retain_values(
    target_spec: TargetSpec, *, cache: Cache, device: torch.device | str | None, on_progress: Callable[[Progress], None]
) -> RetainValues | None:
    """Return the retain model's values that the metrics need, computed once per model and data; None if none needs
    them.

    The model is the one in ``target_spec.retain_path``, or :func:`retain_model`'s.

    Raises:
        MetricError: the data cannot give a metric that was requested by name.
        TargetError, LoadError: with a message for the user.
    """
    if not needs_retain_model(target_spec.measured()):
        return None
    given = target_spec.retain_path
    identity = target_spec.retain_key if given is None else folder_digest(given)
    key = digest(FORMAT, "retain", identity, target_spec.data, target_spec.max_length, target_spec.template_key)

    def compute() -> dict[str, object]:
        folder = given or retain_model(target_spec, cache=cache, device=device, on_progress=on_progress)
        place = device or default_device()
        model = target_spec.modality.load_model(folder).to(place)
        evaluator = target_spec.evaluator(model, target_spec.modality.load_processor(folder), device=place)
        return asdict(evaluator.reference(model, key=key, path=str(folder.resolve())))

    found = cache.note(f"retain-values/{key}", compute)
    if given is None:
        used(Path(found["path"]) / "target.json")
    return RetainValues(
        key=key,
        path=found["path"],
        log_truth_ratios=tuple(found["log_truth_ratios"]),
        forget_log_probs=tuple(found["forget_log_probs"]),
        holdout_log_probs=tuple(found["holdout_log_probs"]),
        min_k_auc=found["min_k_auc"],
    )
