"""Find the licence of a base model in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence: its name on the hub (None if unknown), and the files with its text."""

    name: str | None = None
    files: tuple[Path, ...] = ()


def licence_of(folder: Path | None) -> Licence:
    """Return the licence named in the README.md of a model folder, and the licence files in the folder."""
    import yaml
    from huggingface_hub import metadata_load

    if folder is None:
        return Licence()
    files = tuple(path for pattern in _FILES for path in sorted(folder.glob(pattern)) if path.is_file())
    try:
        content = metadata_load(folder / "README.md") or {}
    except (OSError, ValueError, yaml.YAMLError):
        content = {}
    value = content.get("license_name") or content.get("license")
    name = value.strip() if isinstance(value, str) else ""
    return Licence(name or None, files)
