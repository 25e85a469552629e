"""The state of an unfinished fine-tuning on disk, so that a killed one goes on where it was last saved."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

SAVE_EVERY_SECONDS = 60.0
_SAVE_SHARE = 0.02


@dataclass(slots=True)
class TrainingState:
    """One file, written whole or not at all, at most every ``pause`` seconds and for at most 2% of the time.

    ``path`` names the content that is trained: model, data and recipe, so that a state never meets another training.
    """

    path: Path
    pause: float = SAVE_EVERY_SECONDS
    _saved_at: float = 0.0
    _cost: float = 0.0

    def __post_init__(self) -> None:
        self._saved_at = time.monotonic()

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Take up the saved state; returns the epochs done, 0 where there is no whole state."""
        import torch

        state = load_state_file(self.path)
        if state is None:
            return 0
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda_rng"][0])
        return int(state["epoch"])

    def save(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, epoch: int) -> None:
        """Write the state after ``epoch``, if it is due. A disk that refuses costs the state, not the training."""
        import torch

        if time.monotonic() - self._saved_at < max(self.pause, self._cost / _SAVE_SHARE):
            return
        started = time.monotonic()
        save_state_file(
            {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng": torch.get_rng_state(),
                "cuda_rng": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
            },
            self.path,
        )
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - started

    def discard(self) -> None:
        """The training is over."""
        self.path.unlink(missing_ok=True)


def save_state_file(state: Mapping[str, Any], path: Path) -> None:
    """Replace ``path`` by a whole new file, for :func:`load_state_file`; a disk that refuses leaves the old one."""
    import torch

    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(dict(state), staging)
        staging.replace(path)
    except (OSError, RuntimeError):  # torch tells some of the disk's refusals as RuntimeError
        pass
    finally:
        with contextlib.suppress(OSError):
            staging.unlink(missing_ok=True)


def load_state_file(path: Path) -> dict[str, Any] | None:
    """A state that torch saved, on the CPU; None where there is no whole file.

    A file that is absent, or torn since its writer was killed or its disk full, is nothing to tell. A whole one that
    cannot be read is: its work is lost, and one line of the log says so.
    """
    import torch

    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):  # torn: the directory at the archive's end is not there
                return None
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        logger.warning("%s cannot be read, so its run starts anew: %s: %s", path, type(error).__name__, reason)
        return None
    return state
