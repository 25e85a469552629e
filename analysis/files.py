"""Files that appear whole or not at all, so that a reader never meets half a report."""

from __future__ import annotations

import uuid
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write under another name in the same folder, then rename over ``path``.

    Raises:
        OSError: the disk is full or the folder cannot be written; ``path`` is as it was before.
    """
    data = content.encode() if isinstance(content, str) else content
    # The suffix stays: a leftover of a killed process still says what it is.
    staging = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
    try:
        staging.write_bytes(data)
        staging.replace(path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
