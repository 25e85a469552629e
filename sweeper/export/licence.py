"""Find the licence of a base model in its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")


@dataclass(frozen=True, slots=True)
class Licence:
    """The licence's name on the hub (None if unknown), the file that contains the name, and the licence files."""

    name: str | None = None
    source: str = ""
    files: tuple[Path, ...] = ()


def licence_of(folder: Path | None) -> Licence:
    """Return the licence named in the front matter of a model folder's README.md, or else in its config.json."""
    if folder is None:
        return Licence()
    files = tuple(path for pattern in _FILES for path in sorted(folder.glob(pattern)) if path.is_file())
    for source, content in (("README.md", _front_matter(folder)), ("config.json", _config(folder))):
        name = content.get("license_name") or content.get("license")
        if isinstance(name, str) and name.strip():
            return Licence(name.strip(), source, files)
    return Licence(files=files)


def _front_matter(folder: Path) -> dict[str, Any]:
    import yaml
    from huggingface_hub import metadata_load

    try:
        return metadata_load(folder / "README.md") or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def _config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
