"""The hidden states of a causal language model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trainables.text.tokens import Batch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleList, Parameter
    from transformers import PreTrainedModel


class _StopForward(Exception):
    """Raised to stop the forward pass after the chosen block."""


def decoder_blocks(model: PreTrainedModel) -> ModuleList:
    """Return the decoder blocks in order.

    Raises:
        ValueError: the model has no list of ``num_hidden_layers`` blocks.
    """
    from torch.nn import ModuleList

    depth = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, ModuleList) and len(module) == depth:
            return module
    raise ValueError(f"the method needs decoder blocks, but {type(model).__name__} has none")


def block_matrices(model: PreTrainedModel) -> list[Parameter]:
    """Return the trained matrices of the MLPs in the decoder blocks.

    Raises:
        ValueError: the model has no such matrices. A mixture of experts has them in larger tensors.
    """
    others = re.compile(r"attn|attention|router|\bgate\.")  # a router selects experts
    matrices = [
        parameter
        for block in decoder_blocks(model)
        for name, parameter in block.named_parameters()
        if parameter.ndim == 2 and parameter.requires_grad and not others.search(name)
    ]
    if not matrices:
        raise ValueError(f"the method needs matrices of MLPs, but the blocks of {type(model).__name__} have none")
    return matrices


def block_output(model: PreTrainedModel, batch: Batch, layer: int) -> Tensor:
    """Return the output of block ``layer``, counted from 0: ``(B, T, d)``. States of padding tokens have no meaning."""
    states: list[Tensor] = []

    def stop(module: object, inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states.append(output[0] if isinstance(output, tuple) else output)
        raise _StopForward

    handle = decoder_blocks(model)[layer].register_forward_hook(stop)
    try:
        model(input_ids=batch.input_ids, use_cache=False)  # without a mask, as in trainables.text.losses.predict
    except _StopForward:
        pass
    finally:
        handle.remove()
    return states[0]


def unit_direction(width: int, *, seed: int) -> Tensor:
    """Return a random unit vector, ``(width,)``. As in the code of RMU, all entries are non-negative."""
    import torch

    vector: Tensor = torch.rand(width, generator=torch.Generator().manual_seed(seed))
    return vector.div_(torch.linalg.vector_norm(vector))
