"""Keep a model's weights in memory that all processes on a machine share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.models.weights import LoadError

if TYPE_CHECKING:
    from torch.nn import Module

_Stamp = tuple[int, int, int]


class StoredWeights:
    """A snapshot of a model's state dict, on the CPU.

    If a safetensors file in ``folder`` has the same tensor under the same name, the snapshot uses a memory map of the
    file. All processes on the machine share this memory. Other tensors are copied.
    """

    def __init__(self, model: Module, folder: Path) -> None:
        self._files: dict[Path, _Stamp] = {}
        mapped_tensors = self._mapped(folder)
        self._tensors: dict[str, Tensor] = {}
        tensor_by_storage: dict[tuple[int, torch.dtype, torch.Size, tuple[int, ...]], Tensor] = {}
        for name, tensor in model.state_dict().items():
            storage = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if storage not in tensor_by_storage:
                current = tensor.detach()
                stored = mapped_tensors.get(name)
                if stored is None or stored.dtype != current.dtype or not torch.equal(stored, current.cpu()):
                    stored = current.to("cpu", copy=True)
                tensor_by_storage[storage] = stored
            self._tensors[name] = tensor_by_storage[storage]

    def load_into(self, model: Module) -> None:
        """Copy the snapshot into a model of the same architecture.

        Raises:
            LoadError: a safetensors file that the snapshot uses has changed.
        """
        for file, stamp in self._files.items():
            current_stamp = _stamp(file)
            is_deleted = current_stamp is None
            if not is_deleted and current_stamp != stamp:
                raise LoadError(
                    f"{file} changed during the sweep, although all trials must start from the same file. Start a new "
                    "sweep, and do not change its target"
                )
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(self._tensors[name])

    def _mapped(self, folder: Path) -> dict[str, Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        tensors: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            stamp = _stamp(file)
            try:
                tensors |= load_file(file)
            except (OSError, SafetensorError):
                continue  # the model was not loaded from this file
            if stamp is not None:
                self._files[file] = stamp
        return tensors


def _stamp(file: Path) -> _Stamp | None:
    """Return a file's inode, size and modification time; None for a deleted file."""
    try:
        status = file.stat()
    except OSError:
        return None  # the memory map of a deleted file stays valid
    return status.st_ino, status.st_size, status.st_mtime_ns
