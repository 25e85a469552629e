"""The target: the fine-tuned "No-unlearn" model all trials start from, made once, cached by content.

Beside the model the target has its data, its own scores (the baseline every trial is compared with), and its log
likelihoods of the forget set (what NPO and its kin compare with), so that they need no second model in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import staged, write_whole
from trainables.data import ProblemData
from trainables.modality import modality_of
from trainables.models.checkpoints import loading, write_model
from trainables.models.hub_cache import fetch_model
from trainables.models.registry import MODELS, ModelInfo, TargetRecipe, find_model, is_hub_id
from trainables.scoring.choice import metrics_of
from trainables.scoring.model_scores import RetainValues
from trainables.spec import TrialSpec
from trainables.target.cache_keys import FORMAT, base_identity, digest, folder_digest
from trainables.target.finetune import Progress, TargetError, finetune
from trainables.target.problem import load_problem
from trainables.target.training_state import TrainingState
from trainables.text.tokens import QUESTION_ANSWER

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

RETAIN = "retain model, "
"""How the progress of training the retain model begins."""


@dataclass(frozen=True, slots=True)
class Target:
    """What all trials of a sweep share.

    Attributes:
        key: content hash of model, data and recipe; part of every trial's spec hash.
        path: a folder ``from_pretrained`` loads, the same on every node.
        data: the unlearning problem.
        vocabulary_size: ``|V|``, the model's number of output classes: tokens, or labels of images.
        baseline: the target's own metrics.
        reference_nll: the target's summed NLL of each forget example, in the order of ``data.forget``.
        template: how the model is asked, with the places ``{question}`` and ``{answer}``.
        retain: of the model trained without the forget set, where a chosen metric needs one.
    """

    key: str
    path: str
    data: ProblemData
    vocabulary_size: int
    baseline: dict[str, float]
    reference_nll: tuple[float, ...]
    template: str = QUESTION_ANSWER
    retain: RetainValues | None = None


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/sweeper``, or ``~/.cache/sweeper``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper"


def model_info(spec: TrialSpec) -> ModelInfo:
    """The registry's entry for the spec's model, or one made up for a hub id or a local folder."""
    return find_model(spec.model)


def target_recipe(spec: TrialSpec) -> TargetRecipe:
    """The model's own recipe, with what the spec sets itself; an epoch count set so is run to its end."""
    recipe = model_info(spec).recipe
    if spec.target_epochs is not None:
        recipe = replace(recipe, epochs=spec.target_epochs, stop_when_memorised=False)
    if spec.target_lr is not None:
        recipe = replace(recipe, lr=spec.target_lr)
    if spec.target_batch_size is not None:
        recipe = replace(recipe, batch_size=spec.target_batch_size)
    if spec.target_lora_rank is not None:
        recipe = replace(recipe, lora_rank=spec.target_lora_rank or None)
    return recipe


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
        spec: names model and data; its method and learning rate do not matter here.
        recipe: how to fine-tune, default :func:`target_recipe`.
        device: where to train and score, default the GPU if there is one.
        cache: default :func:`cache_folder`.
        on_progress: called after every epoch.

    Raises:
        DataError, TargetError, LoadError: with a plain sentence.
    """
    from trainables.target.retain_model import metrics_and_retain

    cache = cache or cache_folder()
    device = device or default_device()
    recipe = recipe or target_recipe(spec)
    data = load_problem(spec)
    _, retain = metrics_and_retain(spec, data, recipe=recipe, cache=cache, device=device, on_progress=on_progress)
    if spec.target_path is not None:
        folder = Path(spec.target_path)
        key = folder_digest(folder)
    else:
        key = trained_key(spec, data, recipe)
        folder = cache / "targets" / key
        if not (folder / "target.json").is_file():
            train_target(spec, data, recipe, folder, device=device, on_progress=on_progress)
    target = _with_baseline(spec, data, key, folder, cache, device=device)
    return _with_metrics(target, spec, retain, cache, device=device) if spec.metrics else target


def trained_key(spec: TrialSpec, data: ProblemData, recipe: TargetRecipe | None = None) -> str:
    """What the model fine-tuned for a spec is called in the cache; known before it is trained."""
    recipe = recipe or target_recipe(spec)
    return digest(FORMAT, base_identity(spec), recipe, data.full, spec.max_length, model_info(spec).template)


def default_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def train_target(
    spec: TrialSpec,
    data: ProblemData,
    recipe: TargetRecipe,
    folder: Path,
    *,
    base_data: ProblemData | None = None,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> None:
    """Fine-tune the base model on ``data.full`` into ``folder``, going on where a killed training was last saved.

    ``base_data`` is what a tokenizer made on the spot is trained on, where that is not ``data``.
    """
    modality = modality_of(data, model_info(spec).template)
    model, processor = load_base(spec, base_data or data)
    model.to(device)
    if recipe.lora_rank is not None:
        from trainables.run.workspace import add_adapter

        model = add_adapter(model, rank=recipe.lora_rank, seed=0)
    evaluator = modality.evaluator(
        data,
        processor,
        classes=modality.classes(model.config),
        max_length=spec.max_length,
        batch_size=spec.eval_batch_size,
        device=device,
    )
    epochs = finetune(
        model,
        modality.encode(processor, data.full, max_length=spec.max_length),
        recipe=recipe,
        modality=modality,
        processor=processor,
        device=device,
        seed=0,
        memorised=lambda trained: modality.memorised(evaluator, trained),
        on_progress=on_progress,
        state=(state := TrainingState(folder.parent.with_name("unfinished") / f"{folder.name}.pt")),
    )
    if recipe.lora_rank is not None:
        model = model.merge_and_unload()
    description = {
        "model": spec.model,
        "base": base_identity(spec),
        "data": data.name,
        "recipe": asdict(recipe),
        "epochs": epochs,
    }
    # Where another process finished the same target first, its content is the same.
    with staged(folder, keep_existing=True) as staging:
        write_model(model, processor, staging)
        (staging / "target.json").write_text(json.dumps(description, indent=2))
    state.discard()


def load_base(spec: TrialSpec, data: ProblemData) -> tuple[PreTrainedModel, Any]:
    """The model and its processor (tokenizer or image processor) fine-tuning starts from.

    Raises:
        TargetError: the model is unknown.
        LoadError: it cannot be loaded.
    """
    if spec.model_path is None and spec.model not in MODELS and not is_hub_id(spec.model):
        raise TargetError(
            f"unknown model '{spec.model}': expected one of {', '.join(MODELS)}, a hub id ORGANISATION/NAME, "
            "or a model_path"
        )
    info, modality = model_info(spec), modality_of(data)
    folder: Path | str | None = spec.model_path
    if folder is None:
        if info.modality != modality.name:
            raise TargetError(
                f"model '{spec.model}' is none of the {modality.models}, as {data.name} needs; give one in a folder as "
                "model_path"
            )
        folder = fetch_model(info.hub_id) if info.hub_id is not None else None
    return modality.load_base(spec.model, folder, data)


def _with_baseline(
    spec: TrialSpec, data: ProblemData, key: str, folder: Path, cache: Path, *, device: torch.device | str
) -> Target:
    """The target with its own scores and forget-set log likelihoods, cached per model and data."""
    from transformers import AutoConfig

    with loading(folder):
        configuration = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        template = model_info(spec).template
        vocabulary_size = modality_of(data, template).classes(configuration)
    problem = digest(FORMAT, key, data, spec.max_length, template)
    stored = cache / "baselines" / f"{problem}.json"
    if not stored.is_file():
        bare = Target(problem, str(folder), data, vocabulary_size, {}, (), template)
        values = _score(bare, spec, device)
        write_whole(stored, json.dumps(values))  # with NaN, which reads back as such
    values = json.loads(stored.read_text())
    return Target(
        key=problem,
        path=str(folder.resolve()),
        data=data,
        vocabulary_size=vocabulary_size,
        baseline=values["baseline"],
        reference_nll=tuple(values["reference_nll"]),
        template=template,
    )


def _with_metrics(
    target: Target, spec: TrialSpec, retain: RetainValues | None, cache: Path, *, device: torch.device | str
) -> Target:
    """The target with the chosen metrics in its baseline, and the retain model's values, which its key then names."""
    from trainables.run.workspace import Workspace

    key = target.key if retain is None else digest(FORMAT, target.key, retain.key)
    chosen = metrics_of(spec.metrics, target.data, retain_model=retain is not None)
    stored = cache / "baselines" / f"{digest(FORMAT, key, chosen)}.json"
    if not stored.is_file():
        workspace = Workspace(target, device=device)
        plain = TrialSpec(max_length=spec.max_length, eval_batch_size=spec.eval_batch_size)
        measured = workspace.evaluator(plain).measure(workspace.model_for(plain), chosen, retain=retain)
        write_whole(stored, json.dumps(dict(measured.metrics)))
    baseline = target.baseline | json.loads(stored.read_text())
    return replace(target, key=key, baseline=baseline, retain=retain)


def _score(target: Target, spec: TrialSpec, device: torch.device | str) -> dict[str, object]:
    from trainables.run.workspace import Workspace

    workspace = Workspace(target, device=device)
    plain = TrialSpec(max_length=spec.max_length, eval_batch_size=spec.eval_batch_size)
    model, evaluator = workspace.model_for(plain), workspace.evaluator(plain)
    reference, _ = workspace.modality.nll(
        model,
        workspace.train_sets(plain)[0],
        processor=workspace.tokenizer,
        batch_size=spec.eval_batch_size,
        device=device,
    )
    return {"baseline": evaluator.losses(model) | evaluator.final(model), "reference_nll": reference}
