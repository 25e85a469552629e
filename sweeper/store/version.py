"""What the project is made of and which version of it runs, for the record of what it does."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
PACKAGES = ("sweeper", "trainables", "search_spaces", "analysis")


def commit() -> str | None:
    """The commit of the checkout this runs from, with ``-dirty`` where files of it have changed; None of a wheel."""
    here = Path(__file__)
    # A virtual environment may lie inside somebody else's repository: ask whether this file is one of it.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*") or None


def _git(folder: Path, *arguments: str) -> str | None:
    import subprocess  # --help reads this file

    try:
        found = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
