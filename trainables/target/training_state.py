"""Save the state of unfinished fine-tuning, so that training continues from its last save if it is killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.durable import Throttle
from trainables.saved_state import load_state_file, save_state_file

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class TrainingState:
    """The file with the state of a training. The file is replaced atomically, as often as ``throttle`` allows.

    ``path`` depends on the model, the data and the recipe, so that no other training loads the state.
    """

    path: Path
    throttle: Throttle = field(default_factory=lambda: Throttle(share=0.02, pause=60.0))

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Load the saved state. Return the number of finished epochs; 0 if there is no state."""
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
        """Write the state after ``epoch`` if a save is due. Disk errors do not stop the training."""
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
        """Delete the state, because the training has finished."""
        self.path.unlink(missing_ok=True)
