"""Find the licence of a base model in its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence: its name on the hub (None if unknown), the file that names it, and the files with its text."""

    name: str | None = None
    source: str = ""
    files: tuple[Path, ...] = ()


def licence_of(folder: Path | None) -> Licence:
    """Return the licence that the README.md or the config.json of a model folder names."""
    import yaml
    from huggingface_hub import metadata_load

    if folder is None:
        return Licence()
    files = tuple(path for pattern in _FILES for path in sorted(folder.glob(pattern)) if path.is_file())
    for source, read in (("README.md", metadata_load), ("config.json", _read_json)):
        try:
            content = read(folder / source) or {}
        except (OSError, ValueError, yaml.YAMLError):
            continue
        name = content.get("license_name") or content.get("license")
        if isinstance(name, str) and name.strip():
            return Licence(name.strip(), source, files)
    return Licence(files=files)


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
