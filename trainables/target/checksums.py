"""Whether the files of a cached model are still what was written: a disk that lost some gives a sweep of nonsense."""

from __future__ import annotations

import contextlib
from pathlib import Path

from search_spaces.checksums import CHECKSUMS, damaged, write_checksums
from trainables.target.finetune import TargetError


def require_undamaged(folder: Path) -> None:
    """Compare a folder with its checksums. One from before there were any gets them now.

    Raises:
        TargetError: names the files that differ, and says what to do.
    """
    if not (folder / CHECKSUMS).is_file():
        with contextlib.suppress(OSError):  # a cache that others keep
            write_checksums(folder)
        return
    if differing := damaged(folder):
        raise TargetError(
            f"the cached model {folder} is damaged: {', '.join(differing)} "
            f"{'are' if len(differing) > 1 else 'is'} not as written; delete that folder, and the model is made again"
        )
