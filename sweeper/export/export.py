"""Export a checkpoint and a model card to a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from search_spaces.common.durable import staged, write_atomically
from sweeper.export.card import ADAPTER, MERGED, WHOLE, Card, card_text
from sweeper.export.licence import licence_of
from trainables.models.adapters import merge_adapter
from trainables.models.checkpoints import ADAPTER_CONFIG
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model
from trainables.spec import TrialSpec


class ExportError(Exception):
    exit_code = 2


def export(checkpoint: Path, folder: Path, card: Card, *, merge: bool) -> Iterator[str]:
    """Export a checkpoint to a new folder atomically, and yield messages for the user.

    The fields ``kind``, ``base`` and ``licence`` of ``card`` are ignored, because this function determines their
    values.

    Raises:
        ExportError: ``merge`` is true, but the adapter's base model does not exist.
        LoadError: the adapter or its base model cannot be loaded.
    """
    config = checkpoint / ADAPTER_CONFIG
    base = str(json.loads(config.read_text(encoding="utf-8"))["base_model_name_or_path"]) if config.is_file() else ""
    adapter_kind = MERGED if merge else ADAPTER
    kind = adapter_kind if base else WHOLE
    if kind == MERGED and Path(base).is_absolute() and not Path(base).is_dir():
        raise ExportError(
            f"--merge: the adapter's base model {base} does not exist; train the target again with "
            "'python -m sweeper target'"
        )
    licence = licence_of(_base_folder(card.spec))
    with staged(folder) as staging:
        if kind == MERGED:
            merge_adapter(checkpoint, base, staging)
        else:
            shutil.copytree(checkpoint, staging)
        for path in licence.files:
            shutil.copyfile(path, staging / path.name)
        write_atomically(staging / "README.md", card_text(replace(card, kind=kind, base=base, licence=licence)))
    yield f"exported: {folder} ({kind}, with a model card)"
    if merge and kind == WHOLE:
        yield "--merge has no effect, because the checkpoint is a whole model without an adapter"
    if kind == ADAPTER:
        yield f"the adapter requires its base model, {base}; --merge writes a model that needs no base model"
    if licence.name is None:
        yield "licence: the base model names no licence; find out which one applies before you publish this model"


def _base_folder(spec: TrialSpec) -> Path | None:
    """Return the folder of the base model: the user's folder or the snapshot in the cache of the hub, if any."""
    if folder := spec.model_path or spec.target_path:
        return Path(folder)
    hub_id = find_model(spec.model).hub_id
    return cached_snapshot(hub_id) if hub_id else None
