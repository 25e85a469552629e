"""Compare the weights of a model with those of the target. The weights of a LoRA adapter count as merged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.models.nf4 import BLOCK, blocks_of, nf4_codes

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter
    from transformers import PreTrainedModel


MAX_BLOCKS = 1024
"""The number of blocks of 64 weights whose codes are compared. A comparison takes about 50 ns of a CPU per weight."""


@dataclass(frozen=True, slots=True)
class WeightChanges:
    """The changes of a model's weights.

    Attributes:
        distance: ``||w - w0|| / ||w0||``, where w are the model's and w0 the target's weights.
        nf4_changed: the share of weights whose NF4 code differs from the target's, over all matrices except embeddings
            and the head of a language model, which stay unquantised in common 4-bit models. For more than
            ``MAX_BLOCKS`` blocks, the share is that of a fixed random sample of blocks.
    """

    distance: float
    nf4_changed: float


def weight_changes(weights: Mapping[str, Tensor], target: PreTrainedModel) -> WeightChanges:
    """Compare weights, as :func:`copied_weights` returns them, with those of the target."""
    import torch

    quantised = {id(item): item.numel() for item in quantised_weights(target)}
    share = min(1.0, MAX_BLOCKS * BLOCK / max(1, sum(quantised.values())))
    squares, target_squares, changed, count = 0.0, 0.0, 0, 0
    with torch.no_grad():
        for name, parameter, initial in _merged_weights(target):
            current = weights[name].to(initial.device)
            squares += _squares(current - initial)
            target_squares += _squares(initial)
            if id(parameter) in quantised:
                indices = _sample(math.ceil(initial.numel() / BLOCK), share).to(initial.device)
                codes = [nf4_codes(blocks_of(values)[indices]) for values in (current, initial)]
                changed += int((codes[0] != codes[1]).sum())
                count += min(initial.numel(), len(indices) * BLOCK)
    return WeightChanges(math.sqrt(squares / target_squares), changed / count if count else math.nan)


def _squares(values: Tensor) -> float:
    """Return the sum of squares. Rows are summed in float32, and their sums in float64."""
    import torch

    return float(torch.linalg.vector_norm(values.float(), dim=-1).double().square().sum())


def _sample(blocks: int, share: float) -> Tensor:
    """Return the indices of a share of the blocks, the same for each call."""
    import torch

    if share == 1.0:
        return torch.arange(blocks)
    return torch.randperm(blocks, generator=torch.Generator().manual_seed(0))[: math.ceil(share * blocks)]


def copied_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return copies of all weights in host memory, by the names in a model without an adapter."""
    import torch

    with torch.no_grad():
        return {name: merged.to("cpu", copy=True) for name, _, merged in _merged_weights(model)}


def _merged_weights(model: PreTrainedModel) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the name of each parameter, the parameter, and its value with the enabled adapter."""
    base = _base(model)
    modules = dict(base.named_modules())
    for name, parameter in base.named_parameters():  # a shared parameter is yielded once
        module = modules[name.rpartition(".")[0].removesuffix(".base_layer")]
        if ".lora_" in name:
            continue
        merged = parameter.detach()
        if name.endswith(".base_layer.weight") and not module.disable_adapters:
            for adapter in module.active_adapters:
                merged = merged + module.get_delta_weight(adapter)
        yield name.replace(".base_layer.", "."), parameter, merged


def quantised_weights(model: PreTrainedModel) -> list[Parameter]:
    """Return the weights that a quantised model stores in few bits: all matrices except embeddings and the head."""
    kept = {id(parameter) for parameter in _unquantised(_base(model))}
    return [item for item in _base(model).parameters() if item.dim() > 1 and id(item) not in kept]


def _unquantised(model: PreTrainedModel) -> Iterator[Tensor]:
    from torch.nn import Embedding

    for module in model.modules():
        if isinstance(module, Embedding):
            yield module.weight
    head = model.get_output_embeddings()
    if head is not None:
        yield from head.parameters()


def _base(model: PreTrainedModel) -> PreTrainedModel:
    base: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base
