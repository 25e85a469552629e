"""Fine-tune a base model for the cache, and check the files of cached models."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.checksums import CHECKSUMS, damaged_files, write_checksums
from search_spaces.durable import free_bytes, staged
from search_spaces.messages import expected_one_of, size
from trainables.data import TaskData
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import write_model
from trainables.models.hub_cache import fetch_model
from trainables.models.registry import MODELS, is_hub_id
from trainables.target.cache import unfinished
from trainables.target.finetune import Progress, TargetError, finetune
from trainables.target.target_spec import TargetSpec

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def train(
    target_spec: TargetSpec,
    folder: Path,
    *,
    data: TaskData,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> None:
    """Fine-tune the base model on ``data.full`` and write it to ``folder``, atomically.

    A killed training continues from its last saved state.

    Raises:
        TargetError, LoadError: the model cannot be trained; the message is for the user.
    """
    recipe, state = target_spec.recipe, unfinished(folder, ".pt")
    model, processor = load_base(target_spec)
    _require_room(model, folder)
    model.to(device)
    if recipe.lora_rank is not None:
        model = add_adapter(model, rank=recipe.lora_rank, seed=target_spec.trial.target_seed)
    epochs = finetune(model, processor, target_spec, data=data, on_progress=on_progress, state=state)
    if recipe.lora_rank is not None:
        model = model.merge_and_unload()
    made_from = {"model": target_spec.info.name, "base": target_spec.base, "data": data.name, "recipe": asdict(recipe)}
    # If another process has finished the same target first, its folder is kept, because the content is the same.
    with staged(folder, keep_existing=True) as staging:
        write_model(model, processor, staging)
        (staging / "target.json").write_text(json.dumps({**made_from, "epochs": epochs}, indent=2))
        write_checksums(staging)
    state.unlink(missing_ok=True)


def _require_room(model: PreTrainedModel, folder: Path) -> None:
    needed, free = 4 * sum(weights.numel() for weights in model.parameters()), free_bytes(folder)
    if free < needed:
        raise TargetError(
            f"not enough disk: the target takes {size(needed)}, and {size(free)} are free in {folder.parent}; make "
            "room there, or set XDG_CACHE_HOME to a folder on a larger disk"
        )


def load_base(target_spec: TargetSpec) -> tuple[PreTrainedModel, Any]:
    """Return the model from which fine-tuning starts, and its processor (tokenizer or image processor).

    Raises:
        TargetError: the model is unknown.
        LoadError: the model cannot be loaded.
    """
    import torch

    info, modality, folder = target_spec.info, target_spec.modality, target_spec.base_folder
    load = partial(modality.load_base, info.name, data=target_spec.data, seed=target_spec.trial.target_seed)
    if folder is None:
        if info.name not in MODELS and not is_hub_id(info.name):
            raise TargetError(
                f"unknown model '{info.name}': {expected_one_of(info.name, MODELS)}, a hub id ORGANISATION/NAME, "
                "or a model_path"
            )
        if info.modality != modality.name:
            raise TargetError(
                f"model '{info.name}' is not one of the {modality.models} that {target_spec.data.name} needs; give "
                "one in a folder as model_path"
            )
        if info.make is not None:  # the model of a plug-in, which is written to a folder and loaded like other models
            with tempfile.TemporaryDirectory() as made, torch.random.fork_rng(devices=[]):
                torch.manual_seed(target_spec.trial.target_seed)
                write_model(*info.make(target_spec.data, target_spec.trial.target_seed), Path(made))
                return load(folder=Path(made))
        folder = fetch_model(info.hub_id) if info.hub_id is not None else None
    return load(folder=folder)


def require_undamaged(folder: Path) -> None:
    """Compare the files of a cached model with their checksums. Write the checksums if they do not exist.

    Raises:
        TargetError: files differ from their checksums. The message names the files and a remedy.
    """
    if not (folder / CHECKSUMS).is_file():
        with contextlib.suppress(OSError):  # the cache may be read-only
            write_checksums(folder)
        return
    if differing := damaged_files(folder):
        raise TargetError(
            f"the cached model {folder} is damaged: {', '.join(differing)} "
            f"{'have' if len(differing) > 1 else 'has'} changed; delete this folder to train the model again"
        )
