"""Notes about the data and the models of a target, for the user to read before any work starts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from search_spaces.common.messages import counted, shown
from trainables.data import DataError, UnlearningData
from trainables.data.overlap import overlap
from trainables.metrics.registry import METRICS, SETS, metrics_in
from trainables.modality import modality_of
from trainables.models.checkpoints import TOKENIZER_FILES, load_tokenizer
from trainables.models.hub_cache import cached_snapshot
from trainables.models.tiny import TINY_MODELS, tokenizer_for
from trainables.models.weights import removed_prefixes
from trainables.target.target import TargetSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def data_notes(spec: TargetSpec) -> list[str]:
    """Return notes about cut answers, rows that are also retained, unused question sets, and prefixes of weights.

    Raises:
        DataError: all rows to forget are also retained, or a prompt is longer than the maximum length.
    """
    notes = overlap_notes(spec)
    modality = modality_of(spec.data, spec.info.template)
    notes += modality.cut_notes(spec.data, partial(_tokenizer, spec), max_length=spec.trial.max_length)
    notes += _unused_set_notes(spec)
    notes += _prefix_notes(spec)
    return notes


def overlap_notes(spec: TargetSpec) -> list[str]:
    """Return a note if rows of the forget set are also in the retain set.

    Raises:
        DataError: all rows of the forget set are also in the retain set.
    """
    common = overlap(spec.data)
    count = len(common.items)
    if not count:
        return []
    examples = " and ".join(f"'{shown(item, 80)}'" for item in [*dict.fromkeys(common.items)][:2])
    variants = f", perhaps with other {common.ignored}" if common.ignored else ""
    rows = f"{count} of {counted(common.total, common.unit)} of the forget set"
    text = (
        f"{rows} {'is' if count == 1 else 'are'} also in the retain set{variants}, so a model cannot both forget and "
        f"retain {'it' if count == 1 else 'them'}: {examples}"
    )
    if count == common.total:
        raise DataError(f"data set {spec.data.name}: {text}")
    return [text]


def _unused_set_notes(spec: TargetSpec) -> Iterator[str]:
    """Yield a note if the user's own data have questions that no metric is measured on."""
    requested = metrics_in(spec.trial.metrics)
    further = [name for name in SETS["facts"] if name not in SETS["default"]]
    unused = [
        name
        for name in further
        if name not in requested and not METRICS[name].unmet_needs(spec.data, retain_model=False)
    ]
    if unused and spec.data.name == "jsonl":
        names = ", ".join(unused)
        yield f"the data support {names}, but --metrics does not name these metrics: add --metrics default,facts"


def _prefix_notes(spec: TargetSpec) -> Iterator[str]:
    """Yield a note for each model folder in which known prefixes of the weights' names are ignored."""
    folders = (spec.target_path, spec.base_folder, spec.retain_path)
    for folder in dict.fromkeys(folder for folder in folders if folder is not None):
        if prefixes := removed_prefixes(folder):
            yield f"{folder}: ignored in the names of the weights: {', '.join(prefixes)}"


def _tokenizer(spec: TargetSpec, data: UnlearningData) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer of the target; None if the tokenizer is not on this machine."""
    folder = spec.target_path or spec.base_folder
    hub_id = spec.info.hub_id
    if folder is None and hub_id is not None:
        folder = cached_snapshot(hub_id)
    if folder is not None:
        has_tokenizer = any((folder / name).is_file() for name in TOKENIZER_FILES)
        return load_tokenizer(folder) if has_tokenizer else None
    return tokenizer_for(spec.info.name, data.full) if spec.info.name in TINY_MODELS else None
