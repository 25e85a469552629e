"""Write and read the state of unfinished training."""

from __future__ import annotations

import contextlib
import logging
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from search_spaces.common.durable import staged
from search_spaces.common.messages import first_line

STATE_FILE = "state.pt"
"""The file with a run's state in a checkpoint folder of Ray."""

logger = logging.getLogger(__name__)


def save_state_file(state: Mapping[str, Any], path: Path) -> None:
    """Write a state to a file. If writing fails, the previous file is kept and no error is raised."""
    import torch

    # torch raises RuntimeError for some disk errors
    with contextlib.suppress(OSError, RuntimeError), staged(path) as staging:
        torch.save(dict(state), staging)


def load_state_file(path: Path) -> dict[str, Any] | None:
    """Return the state in a file, with its tensors on the CPU.

    Return None if the file is missing or unreadable.
    """
    import torch

    try:
        with zipfile.ZipFile(path) as archive:  # torch does not verify the checksums
            if (damaged_entry := archive.testzip()) is not None:
                raise ValueError(f"the entry {damaged_entry} in the file is damaged")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        logger.warning("%s cannot be read, so the training starts from the beginning: %s", path, reason)
        return None
    return state


def random_state() -> dict[str, Any]:
    """Return the states of torch's random generators for the CPU and the GPU."""
    import torch

    cuda_states = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return {"rng": torch.get_rng_state(), "cuda_rng": cuda_states}


def load_random_state(state: Mapping[str, Any]) -> None:
    import torch

    torch.set_rng_state(state["rng"])
    if state["cuda_rng"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda_rng"][0])


@contextlib.contextmanager
def kept_random_states() -> Iterator[None]:
    """After the block, the global random generators of Python, numpy and torch have the same states as before."""
    import random

    import numpy as np
    import torch

    python_state, numpy_state = random.getstate(), np.random.get_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    torch_state = torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
        if cuda_states:
            torch.cuda.set_rng_state_all(cuda_states)


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state in a checkpoint folder of Ray; None if the run has finished or the state cannot be read."""
    state = load_state_file(folder / STATE_FILE)
    # Ray restores a finished run only if its worker died before the driver got the last report. The run is repeated.
    is_finished = state is not None and state.get("done")
    return None if is_finished else state
