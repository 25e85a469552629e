"""Find the target from which a model was made, and the recipe of its fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.export.spec_of_row import spec_of_row
from sweeper.store.folder import read_origin
from trainables.data import DataError
from trainables.models.checkpoints import base_of
from trainables.target.cache import RECORD, Cache, NotCached
from trainables.target.prepare import Preparation
from trainables.target.target import target_spec_of


def target_of_model(folder: Path) -> Path | None:
    """Return the folder of the target of a checkpoint, without training it.

    The target is that of the sweep or of the run (``unlearn --out``) that contains the checkpoint, or the base model of
    an adapter. The result is None if none of these is known, or if the target is not on this machine.
    """
    candidates = (_of_sweep(folder.parent.parent), base_of(folder), _of_run(folder.parent))
    return next((path for name in candidates if name and (path := Path(name)).is_dir()), None)


def recorded_recipe(*folders: Path | None) -> Mapping[str, Any] | None:
    """Return the recipe of the first folder that is a target with a record of its training, or None.

    A file with the name of a record that is not a record is ignored.
    """
    recipes = (_recipe(folder / RECORD) for folder in folders if folder is not None)
    return next((recipe for recipe in recipes if recipe), None)


def _recipe(path: Path) -> Mapping[str, Any] | None:
    try:
        recipe = json.loads(path.read_text(encoding="utf-8"))["recipe"]
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return recipe if isinstance(recipe, dict) and {"lr", "lora_rank"} <= recipe.keys() else None


def _of_sweep(out: Path) -> str | None:
    return read_origin(out).target_path if (out / "sweep.json").is_file() else None


def _of_run(out: Path) -> str | None:
    path = out / "metrics.json"
    row = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if "target_key" not in row:
        return None
    try:
        folder, _ = Preparation(spec=target_spec_of(spec_of_row(row)), cache=Cache(computing=False)).model()
    except (NotCached, DataError):
        return None
    return str(folder)
