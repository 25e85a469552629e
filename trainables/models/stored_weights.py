"""A model's weights as they were loaded, in memory that all processes of a machine share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.models.checkpoints import LoadError

if TYPE_CHECKING:
    from torch.nn import Module

_Stamp = tuple[int, int, int]


class StoredWeights:
    """The state dict of a model as it is now, on the CPU: what happens to the model leaves it as it is.

    Of a tensor that a safetensors file of ``folder`` holds as it is, in the same type, it is a map of that file, which
    is in memory once however many processes read it, and which the system may drop and read again. Anything else is
    copied, such as weights that were converted to float32, and once where several names have the same memory.
    """

    def __init__(self, model: Module, folder: Path) -> None:
        self._files: dict[Path, _Stamp] = {}
        mapped = self._mapped(folder)
        self._tensors: dict[str, Tensor] = {}
        seen: dict[tuple[int, torch.dtype, torch.Size, tuple[int, ...]], Tensor] = {}
        for name, tensor in model.state_dict().items():
            place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if place not in seen:
                stored, now = mapped.get(name), tensor.detach()
                if stored is None or not _is_equal(stored, now.cpu()):
                    stored = now.to("cpu", copy=True)
                seen[place] = stored
            self._tensors[name] = seen[place]

    def load_into(self, model: Module) -> None:
        """Give a model like that one these weights, in place.

        Raises:
            LoadError: a file that they are mapped from has been written to, so that nobody knows what they are.
        """
        for file, stamp in self._files.items():
            if (now := _stamp(file)) is not None and now != stamp:
                raise LoadError(
                    f"{file} has been changed while trials were starting from it: begin a new sweep, with a target "
                    "that stays as it is"
                )
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(self._tensors[name])

    def _mapped(self, folder: Path) -> dict[str, Tensor]:
        """Every tensor of the folder's safetensors files by name; nothing is read until it is looked at."""
        from safetensors import SafetensorError, safe_open

        found: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            stamp = _stamp(file)
            try:
                with safe_open(file, framework="pt") as tensors:
                    found |= {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no mapping
            except (OSError, SafetensorError):
                continue  # the model came from elsewhere
            if stamp is not None:
                self._files[file] = stamp
        return found


def _is_equal(stored: Tensor, now: Tensor) -> bool:
    return (stored.dtype, stored.shape) == (now.dtype, now.shape) and torch.equal(stored, now)


def _stamp(file: Path) -> _Stamp | None:
    """Which file it is, and when and how long it was last written; None where it is gone: a map outlives its name."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
