"""The retain model: trained as the target was, on the retain set alone; what forget quality and PrivLeak compare with.

It has the target's base model, processor, recipe and seed, and the retain set in place of the full set: the same number
of epochs, and so proportionally fewer steps. Under a recipe that stops when the data are memorised, the retain set is
what must be memorised (mean loss below 0.05, ROUGE-L recall on its sample above 0.95); the forget set never is.
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
from trainables.target.problem import Problem
from trainables.target.training import trained

if TYPE_CHECKING:
    import torch

RETAIN = "retain model, "
"""How the progress of its training begins."""


def retain_model(
    problem: Problem, *, cache: Cache, device: torch.device | str | None, on_progress: Callable[[Progress], None]
) -> Path:
    """The folder of the problem's retain model: in the cache, or trained now.

    Raises:
        TargetError, LoadError: with a plain sentence; so it is where only a finished target was given, whose base model
            nobody knows.
    """
    if problem.target_path is not None:
        raise TargetError(
            "a retain model cannot be trained beside --target-path: the target's base model is not known; give the "
            "base model with --model-path, or the retain model's folder with --retain-model"
        )
    return trained(
        problem,
        cache.model(problem.retain_key),
        data=problem.data.retain_problem(),
        device=device,
        on_progress=lambda step: on_progress(replace(step, text=RETAIN + step.text)),
    )


def retain_values(
    problem: Problem, *, cache: Cache, device: torch.device | str | None, on_progress: Callable[[Progress], None]
) -> RetainValues | None:
    """What the problem's metrics need of the retain model, computed once per model and data; None where none does.

    The model is the one in ``problem.retain_path``, or else :func:`retain_model`'s.

    Raises:
        MetricError: a metric asked for by name cannot be had of the data.
        TargetError, LoadError: with a plain sentence.
    """
    if not needs_retain_model(problem.measured()):
        return None
    given = problem.retain_path
    identity = problem.retain_key if given is None else folder_digest(given)
    key = digest(FORMAT, "retain", identity, problem.data, problem.max_length, problem.template_key)

    def compute() -> dict[str, object]:
        folder = given or retain_model(problem, cache=cache, device=device, on_progress=on_progress)
        place = device or default_device()
        model = problem.modality.load_model(folder).to(place)
        evaluator = problem.evaluator(model, problem.modality.load_processor(folder), device=place)
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
