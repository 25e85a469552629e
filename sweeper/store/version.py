"""The packages, the version and the commit of the project."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
PACKAGES = ("sweeper", "trainables", "search_spaces", "analysis")


def commit() -> str | None:
    """Return the git commit, with ``-dirty`` for uncommitted changes, or None for an installed package."""
    file = Path(__file__)
    # A virtual environment may be inside an unrelated repository, so check that this file is tracked.
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*") or None


def _git(folder: Path, *arguments: str) -> str | None:
    import subprocess  # not at the top, because --help imports this file

    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
