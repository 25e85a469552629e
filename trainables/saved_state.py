"""Write and read the saved state of an unfinished training: of a run in a sweep, or of a target's fine-tuning."""

from __future__ import annotations

import contextlib
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.durable import staged

STATE_FILE = "state.pt"
"""The name of a run's state in a checkpoint folder of Ray."""

logger = logging.getLogger(__name__)


def save_state_file(state: Mapping[str, Any], path: Path) -> None:
    """Replace ``path`` with a new file for :func:`load_state_file`; if the disk refuses, the previous file stays."""
    import torch

    # torch raises some errors of the disk as RuntimeError
    with contextlib.suppress(OSError, RuntimeError), staged(path) as staging:
        torch.save(dict(state), staging)


def load_state_file(path: Path) -> dict[str, Any] | None:
    """Return a saved state, on the CPU, or None if the file is missing, torn or unreadable.

    A whole file that cannot be read is logged, because its work is lost.
    """
    import torch

    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):  # torn: the archive's directory, at its end, is missing
                return None
            with zipfile.ZipFile(file) as archive:  # torch does not verify the checksums
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"its part {damaged} is damaged")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        logger.warning("%s cannot be read, so its run starts again: %s: %s", path, type(error).__name__, reason)
        return None
    return state


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state of an unfinished run from a checkpoint folder, or None if there is none to continue from.

    A run that had ended runs again, because its last report was lost with its worker.
    """
    state = load_state_file(folder / STATE_FILE)
    return None if state is None or state.get("done") else state
