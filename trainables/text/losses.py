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
    """Run one forward pass.

    No attention mask is passed: padding is on the right, where causal attention never looks, and on a GPU a mask would
    cost a wait per pass and a slower kernel. The vocabulary-wide logits of the prompt that all rows share, a third to a
    half of all, are not computed if the architecture supports ``logits_to_keep``.
    """
    from torch.nn.functional import cross_entropy, pad

    labels = batch.labels[:, max(1, batch.prompt_length) :]
    width = labels.shape[1]
    kept = {"logits_to_keep": width + 1} if _keeps_logits(type(_whole(model)).forward) else {}
    logits = model(input_ids=batch.input_ids, use_cache=False, **kept).logits[:, -(width + 1) :]
    # The last position predicts nothing. It is masked rather than cut off, because then flattening would copy the rest.
    masked = pad(labels, (0, 1), value=IGNORED)
    nll = cross_entropy(logits.flatten(0, 1).float(), masked.flatten(), ignore_index=IGNORED, reduction="none")
    nll = nll.view(masked.shape)[:, :-1].contiguous()
    return Predictions(logits[:, :-1], labels, nll, labels != IGNORED)


def _whole(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model itself, without an adapter, whose forward method accepts any argument."""
    base: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base


@functools.cache
def _keeps_logits(forward: Callable[..., object]) -> bool:
    return "logits_to_keep" in inspect.signature(forward).parameters


def sequence_nll(
    model: PreTrainedModel, sequences: Sequence[Tokens], *, pad_id: int, batch_size: int, device: torch.device | str
) -> ItemLosses:
    """Return the losses of each sequence in order, and how far the model would generate it itself; in eval mode.

    The cap is ``ln|V|``, with ``|V|`` the number of the model's logits.
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
    """Return how many leading supervised tokens are the likeliest ones, and the likeliest token after them, or -1.

    Each ``(B,)``.
    """
    import torch

    guesses = predicted.logits.argmax(dim=-1)
    same = (guesses == predicted.labels) | ~predicted.supervised
    leading = same.long().cumprod(dim=1).bool()
    first = (~same).long().argmax(dim=1, keepdim=True)
    instead = torch.where(leading[:, -1], -1, guesses.gather(1, first)[:, 0])
    return (leading & predicted.supervised).sum(dim=1), instead
