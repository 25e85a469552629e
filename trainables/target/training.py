"""Fine-tune the target or the retain model for the cache, and check the files of cached models."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.checksums import CHECKSUMS, damaged_files, write_checksums
from search_spaces.common.durable import Throttle, free_bytes, staged
from search_spaces.common.messages import format_size
from trainables.batches import epoch_batches
from trainables.data import TaskData
from trainables.modality.evaluation import evaluate_items
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import write_model
from trainables.models.hub_cache import fetch_model
from trainables.predictions import mean_loss
from trainables.saved_state import load_random_state, load_state_file, random_state, save_state_file
from trainables.target.cache import RECORD, TargetError, unfinished_file
from trainables.target.target import TargetSpec

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


MEMORISED_LOSS = 0.05
"""A model has memorised its data only if its mean loss is below this value (nats per supervised token)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long computation, for a progress bar."""

    done: int
    total: int
    text: str


def train(
    target_spec: TargetSpec,
    folder: Path,
    *,
    data: TaskData,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
) -> None:
    """Fine-tune the base model on ``data.full`` and write it to a folder, atomically.

    If the process is killed, the next call continues from the last saved state.
    """
    recipe = target_spec.recipe
    state = unfinished_file(folder, ".pt")
    model, processor = load_base(target_spec)
    target_spec.require_fit(model, processor)
    _require_room(model, folder)
    model.to(device)
    if recipe.lora_rank is not None:
        model = add_adapter(model, rank=recipe.lora_rank, seed=target_spec.trial.target_seed)
    epochs = finetune(model, processor, target_spec, data=data, on_progress=on_progress, state=state)
    if recipe.lora_rank is not None:
        model = model.merge_and_unload()
    record = {"model": target_spec.info.name, "base": target_spec.base, "data": data.name, "recipe": asdict(recipe)}
    # If another process has written the same target first, its folder is kept, because the content is the same.
    with staged(folder, keep_existing=True) as staging:
        write_model(model, processor, staging)
        (staging / RECORD).write_text(json.dumps({**record, "epochs": epochs}, indent=2))
        write_checksums(staging)
    state.unlink(missing_ok=True)


def _require_room(model: PreTrainedModel, folder: Path) -> None:
    model_bytes = 4 * sum(weights.numel() for weights in model.parameters())
    disk_bytes = free_bytes(folder)
    if disk_bytes < model_bytes:
        raise TargetError(
            f"not enough disk space: the target needs {format_size(model_bytes)}, but only {format_size(disk_bytes)} "
            f"are free in {folder.parent}; delete files there, or set XDG_CACHE_HOME to a folder on a larger disk"
        )


def load_base(target_spec: TargetSpec) -> tuple[PreTrainedModel, Any]:
    import torch

    info, data, seed = target_spec.info, target_spec.data, target_spec.trial.target_seed
    load = partial(target_spec.modality.load_base, info.name, data=data, seed=seed)
    if target_spec.base_folder is not None:
        return load(folder=target_spec.base_folder)
    if info.make is not None:  # a plug-in's model is written to a folder and loaded like other models
        with tempfile.TemporaryDirectory() as scratch, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, processor = info.make(data, seed)
            write_model(model, processor, Path(scratch))
            return load(folder=Path(scratch))
    folder = fetch_model(info.hub_id) if info.hub_id is not None else None
    return load(folder=folder)


def require_undamaged(folder: Path) -> None:
    """Raise :class:`TargetError` if files of a cached model do not match their checksums."""
    damaged_names = damaged_files(folder) if (folder / CHECKSUMS).is_file() else [CHECKSUMS]
    if damaged_names:
        raise TargetError(
            f"the cached model {folder} is damaged; changed or missing files: {', '.join(damaged_names)}; delete this "
            "folder to train the model again"
        )


def finetune(
    model: PreTrainedModel,
    processor: Any,
    spec: TargetSpec,
    *,
    data: TaskData,
    on_progress: Callable[[Progress], None],
    state: Path | None = None,
) -> int:
    """Train a model in place on ``data.full`` with AdamW and the spec's recipe. Return the number of trained epochs.

    The learning rate rises linearly over 5% of the steps and then falls linearly. If ``stop_when_memorised`` is true,
    training ends after the first epoch at which the mean loss is below 0.05 (nats per token) and
    ``ModelEvaluator.memorised`` is true.

    Args:
        state: the file for the state of unfinished training. After a crash, the next call continues from this file and
            gives bit-identical results. The file's name must depend on the model, the data and the recipe.

    Raises:
        TargetError: the loss is not finite, or ``stop_when_memorised`` is true but the data were not memorised in any
            epoch.
    """
    import torch

    modality, recipe, seed = spec.modality, spec.recipe, spec.trial.target_seed
    evaluator = spec.evaluator(model, processor, data=data)
    items = modality.encode(processor, data.full, max_length=spec.trial.max_length)

    def mean_nll() -> float:
        losses = evaluate_items(modality, model, items, processor=processor, batch_size=64)
        return float(sum(losses.totals.tolist()) / sum(losses.counts.tolist()))

    torch.manual_seed(seed)  # for dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    lengths = modality.lengths(items)
    steps_per_epoch = math.ceil(len(lengths) / recipe.batch_size)
    total = steps_per_epoch * recipe.epochs
    warmup = max(1, total // 20)
    model.train()
    throttle = Throttle(share=0.02, pause=60.0)
    epochs_done = 0
    checkpoint = None if state is None else load_state_file(state)
    if checkpoint is not None:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        load_random_state(checkpoint)
        epochs_done = int(checkpoint["epoch"])
    step = epochs_done * steps_per_epoch
    for epoch in range(1 + epochs_done, recipe.epochs + 1):
        loss_sum = 0.0
        for indices in epoch_batches(lengths, recipe.batch_size, f"target:{seed}:{epoch}"):
            step += 1
            rising_factor = step / warmup
            falling_factor = (total - step + 1) / (total - warmup + 1)
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr * min(rising_factor, falling_factor)
            batch = modality.collate(items, indices, processor=processor, device=model.device)
            predicted = modality.predict(model, batch)
            loss = mean_loss(predicted.nll, predicted.supervised)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss_sum += loss.item()
        if not math.isfinite(loss_sum):
            raise TargetError(
                f"the loss became {loss_sum} in epoch {epoch}; lower the learning rate of the target's fine-tuning, "
                f"which is {recipe.lr:g} (--target-lr)"
            )
        epoch_loss = loss_sum / steps_per_epoch
        on_progress(Progress(step, total, f"epoch {epoch}, loss {epoch_loss:.3f}"))
        # The mean over the epoch mixes losses at different weights, so it only decides whether to evaluate the loss.
        may_stop = recipe.stop_when_memorised and epoch_loss < 1.5 * MEMORISED_LOSS
        if may_stop and mean_nll() < MEMORISED_LOSS and evaluator.memorised(model):
            return epoch
        if state is not None and throttle.is_due():
            training_state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            with throttle.saving():
                save_state_file(training_state | random_state(), state)
    if recipe.stop_when_memorised:
        cut_count = sum(getattr(item, "is_cut", False) for item in items)
        length = spec.trial.max_length
        cut = f" ({cut_count} of {len(items)} answers are cut, because --max-length is {length})" if cut_count else ""
        raise TargetError(
            f"the model has not memorised the data after {recipe.epochs} epochs{cut}: the mean loss is "
            f"{mean_nll():.3g}, expected a loss below {MEMORISED_LOSS:g} and verbmem above 0.95 (images: accuracy "
            "above 0.99); to use the target as it is after N epochs, set --target-epochs N"
        )
    return recipe.epochs
