"""A model that an attack may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def editable(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """Yield a model with the same weights, which the block may train or overwrite. The adapter of a model is merged.

    After the block, ``model`` has bit for bit the weights, buffers, gradients and modes that it had before.
    """
    import torch

    from trainables.models.adapters import has_adapter, merged_copy

    if has_adapter(model):
        yield merged_copy(model)
        return
    own = {name: tensor.to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    states = [(item, item.requires_grad, item.grad) for item in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield model
    finally:
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(own[name])
        for parameter, requires_grad, gradient in states:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient
        for module, training in modes:
            module.training = training
