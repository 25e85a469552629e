"""The licence of a base model, as far as its folder or its configuration says one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")


@dataclass(frozen=True, slots=True)
class Licence:
    """``name`` as the hub calls it, None where nobody says; ``source`` is where it was found, ``files`` its text."""

    name: str | None = None
    source: str = ""
    files: tuple[Path, ...] = ()

    @property
    def words(self) -> str:
        """A sentence or two."""
        if self.name is None and not self.files:
            return (
                "The licence of the base model is unknown: neither its folder nor its configuration names one. "
                "Find out before you pass this model on."
            )
        told = f"The base model's licence is {self.name} ({self.source})." if self.name else ""
        files = f"Its {', '.join(path.name for path in self.files)} is in this folder." if self.files else ""
        return " ".join(filter(None, (told, files)))


def licence_of(folder: Path | None) -> Licence:
    """What a model folder says: the front matter of its README.md, else its config.json, and files of that name."""
    if folder is None:
        return Licence()
    files = tuple(path for pattern in _FILES for path in sorted(folder.glob(pattern)) if path.is_file())
    for name, values in (("README.md", _front_matter(folder)), ("config.json", _config(folder))):
        found = values.get("license_name") or values.get("license")
        if isinstance(found, str) and found.strip():
            return Licence(found.strip(), f"says its {name}", files)
    return Licence(None, files=files)


def _front_matter(folder: Path) -> dict[str, Any]:
    import yaml

    try:
        _, head, _ = (folder / "README.md").read_text(encoding="utf-8").split("---", 2)
        found = yaml.safe_load(head)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
