"""Tell the workers which epochs are worth saving.

The driver writes the points of the epochs whose models are kept to a small file. A worker saves the model of an epoch
if it would be kept among these epochs and the earlier epochs of the trial. Only the driver deletes models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from search_spaces.common.durable import write_atomically
from search_spaces.common.front import Point
from search_spaces.common.values import as_float

FRONT_FILE = "ray/front.json"
"""The file with the points of the epochs whose models are kept, relative to the sweep's folder."""


def candidate_folder(trial_id: str, epoch: float) -> str:
    """Return the folder for an epoch's model, relative to the sweep's folder, such as ``checkpoints/00007-epoch-3``."""
    return f"checkpoints/{trial_id}-epoch-{epoch:g}"


def write_front(out: Path, points: Iterable[Point]) -> None:
    """Write points to ``FRONT_FILE``.

    Raises:
        OSError: the file cannot be written.
    """
    lists = [[[None if math.isnan(x) else x for x in part] for part in (p.values, p.violations)] for p in points]
    write_atomically(out / FRONT_FILE, json.dumps(sorted(lists, key=repr)))


def read_front(out: Path) -> list[Point]:
    """Return the points in ``FRONT_FILE``; empty if the file is missing or unreadable."""
    try:
        lists = json.loads((out / FRONT_FILE).read_text(encoding="utf-8"))
        return [Point(tuple(map(as_float, values)), tuple(map(as_float, violations))) for values, violations in lists]
    except (OSError, ValueError, TypeError):
        return []
