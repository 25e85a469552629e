"""Notes about the data and the models of a target, for the user to read before any work starts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from search_spaces.common.messages import counted, shown
from trainables.data import DataError, Example, UnlearningData
from trainables.data.overlap import overlap
from trainables.models.checkpoints import TOKENIZER_FILES, load_tokenizer
from trainables.models.hub_cache import cached_snapshot
from trainables.models.tiny import TINY_MODELS, tokenizer_for
from trainables.models.weights import removed_prefixes
from trainables.target.target import TargetSpec
from trainables.template import is_plain
from trainables.text.tokens import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_LENGTH = 1 << 30


def data_notes(spec: TargetSpec) -> list[str]:
    """Return notes about sets with answers that are cut, rows that are also retained, and prefixes of weights.

    Raises:
        DataError: all rows to forget are also retained, or a prompt is longer than the maximum length.
    """
    notes = overlap_notes(spec)
    if isinstance(spec.data, UnlearningData):
        notes += _cut_notes(spec, spec.data)
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
    examples = " and ".join(f"'{shown(item, 80)}'" for item in common.items[:2])
    variants = "" if common.unit == "image" else ", perhaps with other case, spaces or punctuation"
    text = (
        f"{_share(count, common.total, common.unit, 'the forget set')} also in the retain set{variants}, so a model "
        f"cannot both forget and retain {'it' if count == 1 else 'them'}: {examples}"
    )
    if count == common.total:
        raise DataError(f"data set {spec.data.name}: {text}")
    return [text]


def _share(count: int, total: int, noun: str, place: str) -> str:
    """Return the beginning of a sentence, such as ``1 of 40 answers of forget is``."""
    return f"{count} of {counted(total, noun)} of {place} {'is' if count == 1 else 'are'}"


def _cut_notes(spec: TargetSpec, data: UnlearningData) -> Iterator[str]:
    """Yield a note for each set with answers that are cut because they are longer than the maximum length."""
    length, template = spec.trial.max_length, spec.info.template
    sets = {
        "forget": data.forget,
        "retain": data.retain,
        "forget_eval": data.forget_eval,
        "retain_eval": data.retain_eval,
        **data.extra_eval,
        "holdout": data.holdout,
    }
    candidates: dict[str, list[Example]] = {}
    listed: set[tuple[str, str]] = set()
    for name, examples in sets.items():
        pairs = {(item.question, item.answer) for item in examples}
        if not pairs <= listed:
            candidates[name] = [item for item in examples if _may_be_longer(item, length, template)]
        listed |= pairs
    if not any(candidates.values()):
        return  # so that no tokenizer is loaded
    tokenizer = _tokenizer(spec, data)
    if tokenizer is None:
        return
    encode_row = partial(encode, tokenizer, template=template)
    for name, rows in candidates.items():
        cut = [item for item in rows if encode_row(item.question, item.answer, max_length=length).is_cut]
        if cut:
            longest = max(len(encode_row(item.question, item.answer, max_length=_MAX_LENGTH)) for item in cut)
            yield (
                f"{_share(len(cut), len(sets[name]), 'answer', name)} longer than --max-length {length} tokens: only "
                f"the beginning is trained and scored; the longest question and answer have {longest} tokens"
            )


def _prefix_notes(spec: TargetSpec) -> Iterator[str]:
    """Yield a note for each model folder in which known prefixes of the weights' names are ignored."""
    folders = (spec.target_path, spec.base_folder, spec.retain_path)
    for folder in dict.fromkeys(folder for folder in folders if folder is not None):
        if prefixes := removed_prefixes(folder):
            yield f"{folder}: {', '.join(prefixes)} in the names of weights is ignored"


def _may_be_longer(item: Example, length: int, template: str) -> bool:
    """Return whether a row may have more than ``length`` tokens. A token has at least one byte of UTF-8."""
    if item.is_text:  # a text is cut into windows instead
        return False
    if not is_plain(template):
        return True
    return len(f"{template}{item.question}{item.answer}".encode()) >= length


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
