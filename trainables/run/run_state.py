"""Copy a run's weights and optimizer state to host memory, load them back, and interpolate weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.optim import Optimizer


def training_state(model: torch.nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    return {**weights_state(model), "optimizer": copies(optimizer.state_dict())}


def load_training_state(state: Mapping[str, Any], model: torch.nn.Module, optimizer: Optimizer) -> None:
    """Load a state that :func:`training_state` returned. The state is not changed."""
    load_weights(state, model)
    # Load a copy, because the optimizer changes the loaded tensors.
    optimizer.load_state_dict(copies(state["optimizer"]))


def weights_state(model: torch.nn.Module) -> dict[str, Any]:
    return {
        "parameters": copies([parameter for parameter in model.parameters() if parameter.requires_grad]),
        "buffers": copies(list(model.buffers())),
    }


def load_weights(state: Mapping[str, Any], model: torch.nn.Module) -> None:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with torch.no_grad():
        for parameter, value in zip(parameters, state["parameters"], strict=True):
            parameter.copy_(value)
        for buffer, value in zip(model.buffers(), state["buffers"], strict=True):
            buffer.copy_(value)


def weights_between(state: Mapping[str, Any], other: Mapping[str, Any], position: float) -> dict[str, Any]:
    """Return the weights ``(1 - position) state + position other``.

    If ``position`` is 1, the result is exactly ``other``. Otherwise, integer buffers are those of ``state``.
    """
    if position == 1.0:
        return dict(other)
    return {
        name: [_between(start, end, position) for start, end in zip(state[name], other[name], strict=True)]
        for name in ("parameters", "buffers")
    }


def _between(start: torch.Tensor, end: torch.Tensor, position: float) -> torch.Tensor:
    if not start.is_floating_point():
        return start
    return torch.where(start == end, start, torch.lerp(start, end, position))


def copies(values: Any, device: torch.device | str = "cpu") -> Any:
    """Return a deep copy of nested dictionaries, lists and tuples, with all tensors on the device."""
    if isinstance(values, torch.Tensor):
        return values.detach().to(device, copy=True)
    if isinstance(values, dict):
        return {key: copies(value, device) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(copies(value, device) for value in values)
    return values
