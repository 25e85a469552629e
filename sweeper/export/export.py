"""Writing the folder: the checkpoint as it is, or an adapter merged into its base, with the card beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from search_spaces.durable import staged, write_whole
from sweeper.export.card import ADAPTER, MERGED, WHOLE, Card, card_text
from sweeper.export.licence import licence_of
from trainables.models.adapters import ADAPTER_CONFIG, merge_adapter
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model
from trainables.spec import TrialSpec


class ExportError(Exception):
    """Why a checkpoint cannot be exported as asked, in a plain sentence."""

    exit_code = 2


def export(checkpoint: Path, folder: Path, card: Card, *, merge: bool) -> Iterator[str]:
    """Write ``folder``, whole or not at all; yields what to tell of it. What the checkpoint is, the card gets here.

    Raises:
        ExportError: the adapter's base is not there.
        LoadError: the adapter or its base cannot be loaded.
    """
    base = _base(checkpoint)
    kind = WHOLE if base is None else MERGED if merge else ADAPTER
    if kind == MERGED and Path(str(base)).is_absolute() and not Path(str(base)).is_dir():
        raise ExportError(
            f"--merge: the adapter's base model {base} is not there; make it again with the target command"
        )
    licence = licence_of(_base_folder(card.spec))
    card = replace(card, kind=kind, base=base, licence=licence)
    with staged(folder) as staging:
        if kind == MERGED:
            merge_adapter(checkpoint, str(base), staging)
        else:
            shutil.copytree(checkpoint, staging)
        for path in licence.files:
            shutil.copyfile(path, staging / path.name)
        write_whole(staging / "README.md", card_text(card))
    yield f"exported: {folder} ({kind}, with a model card)"
    if merge and kind == WHOLE:
        yield "--merge: the checkpoint has all its weights already; there is no adapter to merge"
    if kind == ADAPTER:
        yield f"the adapter needs its base, {base}; --merge writes a model that needs none"
    if licence.name is None:
        yield "licence: " + licence.words


def _base(checkpoint: Path) -> str | None:
    """What an adapter is for; None of a whole model."""
    path = checkpoint / ADAPTER_CONFIG
    return str(json.loads(path.read_text(encoding="utf-8"))["base_model_name_or_path"]) if path.is_file() else None


def _base_folder(spec: TrialSpec) -> Path | None:
    """Where the base model's own files are on this machine."""
    if given := spec.model_path or spec.target_path:
        return Path(given)
    hub_id = find_model(spec.model).hub_id
    return cached_snapshot(hub_id) if hub_id is not None else None
