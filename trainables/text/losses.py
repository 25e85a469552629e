"""Cross-entropy over supervised tokens."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.metrics.losses import ItemLosses
from trainables.predictions import Predictions, scoring
from trainables.text.tokens import IGNORED, Batch, Tokens, collate

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def predict(model: PreTrainedModel, batch: Batch) -> Predictions:
    """One forward pass.

    No attention mask is given: padding is to the right, where causal attention never looks from a token, and on a GPU a
    mask is a wait per pass and the slower kernel. The vocabulary-wide logits of the prompt all rows share, a third to a
    half, are never made, unless the architecture knows no ``logits_to_keep``.
    """
    from torch.nn.functional import cross_entropy, pad

    labels = batch.labels[:, max(1, batch.prompt_length) :]
    width = labels.shape[1]
    kept = {"logits_to_keep": width + 1} if _keeps_logits(type(_whole(model)).forward) else {}
    logits = model(input_ids=batch.input_ids, use_cache=False, **kept).logits[:, -(width + 1) :]
    # The last position predicts nothing here. It is masked rather than cut off: flattening the rest would copy it all.
    masked = pad(labels, (0, 1), value=IGNORED)
    nll = cross_entropy(logits.flatten(0, 1).float(), masked.flatten(), ignore_index=IGNORED, reduction="none")
    nll = nll.view(masked.shape)[:, :-1].contiguous()
    return Predictions(logits[:, :-1], labels, nll, labels != IGNORED)


def _whole(model: PreTrainedModel) -> PreTrainedModel:
    """The model itself where it is under an adapter, whose forward takes anything."""
    base: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base


@functools.cache
def _keeps_logits(forward: Callable[..., object]) -> bool:
    return "logits_to_keep" in inspect.signature(forward).parameters


def sequence_nll(
    model: PreTrainedModel, sequences: Sequence[Tokens], *, pad_id: int, batch_size: int, device: torch.device | str
) -> ItemLosses:
    """The losses of each sequence, in order, and how far the model would say it itself; in eval mode.

    The cap is ``ln|V|``, with ``|V|`` the model's logits.
    """
    import numpy as np
    import torch

    found = np.zeros((5, len(sequences)))
    with scoring(model):
        for indices in sorted_batches([len(item) for item in sequences], batch_size):
            predicted = predict(model, collate(sequences, indices, pad_id=pad_id, device=device))
            nll = predicted.nll.double()
            capped = nll.clamp(max=math.log(predicted.logits.shape[-1]))
            sums = (nll.sum(dim=1), capped.sum(dim=1), predicted.supervised.sum(dim=1))
            found[:, indices] = torch.stack([*sums, *_agreement(predicted)]).cpu().numpy()
    totals, token_capped, counts, agreed, instead = found
    return ItemLosses(totals, token_capped, counts, agreed.astype(int), instead.astype(int))


def _agreement(predicted: Predictions) -> tuple[torch.Tensor, torch.Tensor]:
    """How many supervised tokens from the first are the likeliest ones, and the likeliest in place of the next, or -1.

    Each ``(B,)``.
    """
    import torch

    guesses = predicted.logits.argmax(dim=-1)
    same = (guesses == predicted.labels) | ~predicted.supervised
    leading = same.long().cumprod(dim=1).bool()
    first = (~same).long().argmax(dim=1, keepdim=True)
    instead = torch.where(leading[:, -1], -1, guesses.gather(1, first)[:, 0])
    return (leading & predicted.supervised).sum(dim=1), instead
