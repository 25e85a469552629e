"""The state of an unfinished fine-tuning on disk, so that a killed one goes on where it was last saved."""

from __future__ import annotations

import contextlib
import logging
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import Throttle, staged

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainingState:
    """One file, written whole or not at all, and as often as ``throttle`` says.

    ``path`` names the content that is trained: model, data and recipe, so that a state never meets another training.
    """

    path: Path
    throttle: Throttle = field(default_factory=lambda: Throttle(share=0.02, pause=60.0))

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

        if not self.throttle.is_due():
            return
        state = {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "cuda_rng": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        }
        with self.throttle.saving():
            save_state_file(state, self.path)

    def discard(self) -> None:
        """The training is over."""
        self.path.unlink(missing_ok=True)


def save_state_file(state: Mapping[str, Any], path: Path) -> None:
    """Replace ``path`` by a whole new file, for :func:`load_state_file`; a disk that refuses leaves the old one."""
    import torch

    # torch tells some of the disk's refusals as RuntimeError
    with contextlib.suppress(OSError, RuntimeError), staged(path) as staging:
        torch.save(dict(state), staging)


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
            with zipfile.ZipFile(file) as archive:  # torch itself does not look at the checksums
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"its part {damaged} is damaged")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        logger.warning("%s cannot be read, so its run starts anew: %s: %s", path, type(error).__name__, reason)
        return None
    return state
