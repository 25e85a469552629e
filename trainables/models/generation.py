"""Generation settings: greedy decoding without the model's own settings, and the settings file of a saved model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "generation_config.json"


@contextmanager
def without_own_settings(model: PreTrainedModel) -> Iterator[None]:
    """In the block, ``model.generate`` uses transformers' default values for all settings that the call does not set.

    Otherwise ``generate`` would take these settings from the model's generation_config.json: for example
    ``no_repeat_ngram_size``, ``suppress_tokens`` or ``min_new_tokens``, which hide loops or force other tokens.
    """
    from transformers import GenerationConfig

    # For a PEFT model, the module inside has the settings.
    own_settings = [(item, vars(item)["generation_config"]) for item in model.modules() if _has_settings(item)]
    try:
        for module, _ in own_settings:
            module.generation_config = GenerationConfig()
        yield
    finally:
        for module, settings in own_settings:
            module.generation_config = settings


def _has_settings(module: object) -> bool:
    return vars(module).get("generation_config") is not None


def source_file(model: PreTrainedModel) -> Path | None:
    """Return the generation_config.json from which the model was loaded; None if the file does not exist (any more)."""
    from transformers.utils import cached_file

    source = Path(getattr(model, "name_or_path", ""))
    if source == Path() or (source.is_absolute() and not source.exists()):  # the folder of a plug-in's model is removed
        return None
    file = cached_file(
        str(source),
        FILE,
        local_files_only=True,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if file is None else Path(file)


def save_with_settings(model: PreTrainedModel, folder: Path) -> None:
    """Save a model with an exact copy of the generation_config.json from which it was loaded.

    transformers would write the file in its own form, and refuses values that it accepts when a model is loaded.
    """
    source = source_file(model)
    if source is None:
        model.save_pretrained(folder, safe_serialization=True)
        return
    with without_own_settings(model):
        model.save_pretrained(folder, safe_serialization=True)
    if (folder / FILE).is_file():  # a PEFT adapter has no such file
        shutil.copyfile(source, folder / FILE)
