"""Making the target and the retain model, or finding them in the cache: where a spec enters this room."""

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
from trainables.scoring.choice import metrics_of
from trainables.spec import TrialSpec
from trainables.target.cache import FORMAT, Cache, digest, folder_digest
from trainables.target.finetune import Progress
from trainables.target.problem import Problem, problem_of
from trainables.target.retain_model import retain_model, retain_values
from trainables.target.target import Target
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
    """The target for a spec: taken from the cache, from ``target_path``, or fine-tuned now.

    Args:
        recipe: how to fine-tune, default :func:`~trainables.target.problem.target_recipe`.
        device: where to train and score, default the GPU if there is one. Nobody asks where all is in the cache.
        cache: default :func:`~trainables.target.cache.cache_folder`.
        on_progress: called after every epoch.

    Raises:
        DataError, TargetError, LoadError: with a plain sentence.
    """
    return target_of(problem_of(spec, recipe=recipe), cache=Cache(cache), device=device, on_progress=on_progress)


def target_of(
    problem: Problem,
    *,
    cache: Cache,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Target:
    """The target of a problem, as :func:`prepare_target`.

    Raises:
        TargetError, LoadError: with a plain sentence.
        NotCached: the cache is not to compute, and lacks something.
    """
    retain = retain_values(problem, cache=cache, device=device, on_progress=on_progress)
    if problem.target_path is not None:
        folder, name = problem.target_path, folder_digest(problem.target_path)
    else:
        name = problem.trained_key
        folder = cache.model(name)
        trained(problem, folder, data=problem.data, device=device, on_progress=on_progress)
    key = digest(FORMAT, name, problem.data, problem.max_length, problem.template_key)

    @once
    def loaded() -> tuple[PreTrainedModel, Any, ModelEvaluator]:
        place = device or default_device()
        model = problem.modality.load_model(folder).to(place)
        processor = problem.modality.load_processor(folder)
        return model, processor, problem.evaluator(model, processor, device=place)

    def own_scores() -> dict[str, object]:
        model, processor, evaluator = loaded()
        forget = problem.modality.encode(processor, problem.data.forget, max_length=problem.max_length)
        reference, _ = problem.modality.nll(
            model, forget, processor=processor, batch_size=problem.batch_size, device=model.device
        )
        return {"baseline": {**evaluator.losses(model), **evaluator.measure(model).metrics}, "reference_nll": reference}

    def measured(names: tuple[str, ...], of: str) -> dict[str, float]:
        def compute() -> dict[str, float]:
            model, _, evaluator = loaded()
            return dict(evaluator.measure(model, names, retain=retain).metrics)

        return cache.note(f"baselines/{digest(FORMAT, of, names, *problem.measured_by(names))}", compute)

    # Written down, so that a sweep with a known target need not import transformers in its driver.
    shape = cache.note(f"shapes/{name}", lambda: {"classes": _classes(problem, folder)})
    own = problem.measured_by(DEFAULT_SET)
    known = cache.note(f"baselines/{digest(key, own) if own else key}", own_scores)
    baseline = known["baseline"]
    # A version with fewer default metrics may have written the note.
    default = metrics_of((), problem.data, retain_model=False)
    if missing := tuple(name for name in default if name not in baseline):
        baseline |= measured(missing, key)
    if problem.metrics:
        key = key if retain is None else digest(FORMAT, key, retain.key)
        baseline |= measured(problem.measured(), key)
    return Target(
        key=key,
        path=str(folder.resolve()),
        data=problem.data,
        vocabulary_size=shape["classes"],
        baseline=baseline,
        reference_nll=tuple(known["reference_nll"]),
        template=problem.info.template,
        retain=retain,
        left_out=problem.left_out,
    )


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
    return retain_model(
        problem_of(spec, recipe=recipe),
        cache=Cache(cache),
        device=device,
        on_progress=on_progress,
    )


def _classes(problem: Problem, folder: Path) -> int:
    from transformers import AutoConfig

    with loading(folder):
        configuration = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return problem.modality.classes(configuration)
