"""Fine-tune the target: the model that has learned the full set, which includes the forget set and the retain set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import Throttle
from trainables.batches import epoch_batches
from trainables.modality import Modality
from trainables.models.registry import TargetRecipe
from trainables.predictions import mean_loss
from trainables.saved_state import load_random_state, load_state_file, random_state, save_state_file

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

MEMORISED_LOSS = 0.05
"""The full set counts as memorised if its mean loss is below this value (nats per supervised token)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long computation, for a progress bar."""

    done: int
    total: int
    text: str


class TargetError(RuntimeError):
    """The target cannot be prepared; the message is for the user."""

    exit_code = 1


class NotMemorised(TargetError):
    """The recipe's maximum number of epochs was reached before the data were memorised."""


def finetune(
    model: PreTrainedModel,
    items: Any,
    *,
    recipe: TargetRecipe,
    modality: Modality,
    processor: Any,
    device: torch.device | str,
    seed: int,
    memorised: Callable[[PreTrainedModel], bool],
    on_progress: Callable[[Progress], None],
    state: Path | None = None,
) -> int:
    """Train ``model`` in place with AdamW (warm-up over 5% of the steps, then linear decay).

    Returns the number of epochs. ``items`` are the training examples, encoded by ``modality`` with ``processor``. If
    the recipe stops when the data are memorised, ``memorised`` is called after each epoch whose mean loss over all
    items is below 0.05, and training ends when ``memorised`` returns True. If the file ``state`` is given, the state of
    the training is saved there from time to time, and a killed training continues from the file, with bit-identical
    results. The name of the file must depend on the model, the data and the recipe.

    Raises:
        TargetError: the loss is not finite, or all epochs of the recipe ended before the data were memorised.
    """
    import torch

    torch.manual_seed(seed)  # for dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    lengths = modality.lengths(items)
    per_epoch = -(-len(lengths) // recipe.batch_size)
    total = per_epoch * recipe.epochs
    warmup = max(1, total // 20)
    model.train()
    done, saves = 0, Throttle(share=0.02, pause=60.0)
    if state is not None and (saved := load_state_file(state)) is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        load_random_state(saved)
        done = int(saved["epoch"])
    step = done * per_epoch
    for epoch in range(1 + done, recipe.epochs + 1):
        running = 0.0
        for indices in epoch_batches(lengths, recipe.batch_size, f"target:{seed}:{epoch}"):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr * min(step / warmup, (total - step + 1) / (total - warmup + 1))
            predicted = modality.predict(model, modality.collate(items, indices, processor=processor, device=device))
            loss = mean_loss(predicted.nll, predicted.supervised)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        if not math.isfinite(running):
            raise TargetError(
                f"the loss became {running} in epoch {epoch}: lower the target's learning rate ({recipe.lr:g})"
            )
        on_progress(Progress(step, total, f"epoch {epoch}, loss {running / per_epoch:.3f}"))
        # The running mean is over different weights, so it is only used to decide whether to evaluate the loss.
        if recipe.stop_when_memorised and running / per_epoch < 1.5 * MEMORISED_LOSS:
            totals, counts = modality.nll(model, items, processor=processor, batch_size=64, device=device)
            if sum(totals) / sum(counts) < MEMORISED_LOSS and memorised(model):
                return epoch
        if state is not None and saves.is_due():
            parts = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            with saves.saving():
                save_state_file(parts | random_state(), state)
    if recipe.stop_when_memorised:
        totals, counts = modality.nll(model, items, processor=processor, batch_size=64, device=device)
        raise NotMemorised(
            f"the data were not memorised within {recipe.epochs} epochs: their mean loss is "
            f"{sum(totals) / sum(counts):.3g}, expected below {MEMORISED_LOSS:g} with verbmem above 0.95; "
            "--target-epochs N uses the target as it is after N epochs"
        )
    return recipe.epochs
