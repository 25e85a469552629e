"""A model's weights as they were loaded, in memory that all processes of a machine share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn import Module


def stored_weights(model: Module, folder: Path) -> dict[str, Tensor]:
    """The model's state dict as it is now, on the CPU, to be read only: what happens to the model leaves it as it is.

    Of a tensor that a safetensors file of ``folder`` holds bit for bit it is a map of that file, which is in memory
    once however many processes read it, and which the system may drop and read again. Anything else is copied, such as
    weights that were converted to another type, and once where several names have the same memory.
    """
    mapped = _mapped(folder)
    found: dict[str, Tensor] = {}
    seen: dict[tuple[int, torch.dtype, torch.Size, tuple[int, ...]], Tensor] = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if place not in seen:
            stored, now = mapped.get(name), tensor.detach()
            is_stored = (
                stored is not None
                and (stored.dtype, stored.shape) == (now.dtype, now.shape)
                and torch.equal(stored, now.cpu())
            )
            seen[place] = stored if is_stored and stored is not None else now.to("cpu", copy=True)
        found[name] = seen[place]
    return found


def _mapped(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's safetensors files by name; nothing is read until it is looked at."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as tensors:
                found |= {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError):
            continue  # the model came from elsewhere
    return found
