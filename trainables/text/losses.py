"""Compute the cross-entropy of supervised tokens."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.predictions import Predictions
from trainables.text.tokens import IGNORED, Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def predict(model: PreTrainedModel, batch: Batch) -> Predictions:
    from torch.nn.functional import cross_entropy, pad

    # No attention mask: causal attention does not reach the padding on the right. On a GPU, a mask would require a
    # synchronisation and a slower kernel. A third to a half of the positions belong to the prompt in all sequences. If
    # the architecture supports logits_to_keep, the logits of these positions are not computed.
    labels = batch.labels[:, max(1, batch.prompt_length) :]
    width = labels.shape[1]
    options = {"logits_to_keep": width + 1} if _has_logits_to_keep(type(_base_model(model)).forward) else {}
    logits = model(input_ids=batch.input_ids, use_cache=False, **options).logits[:, -(width + 1) :]
    # The last position has no next token. It is masked and not cut off, so that flattening does not copy the logits.
    targets = pad(labels, (0, 1), value=IGNORED)
    nll = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="none")
    nll = nll.view(targets.shape)[:, :-1].contiguous()
    return Predictions(logits[:, :-1], labels, nll, labels != IGNORED)


def _base_model(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model without its PEFT adapter, because the adapter's ``forward`` hides the model's own signature."""
    base: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base


@functools.cache
def _has_logits_to_keep(forward: Callable[..., object]) -> bool:
    return "logits_to_keep" in inspect.signature(forward).parameters
