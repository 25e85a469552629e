"""Find examples that two sets have in common: forget and retain set, or retain set and its evaluation set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.common.words import words
from trainables.data.examples import Example, UnlearningData

if TYPE_CHECKING:
    from trainables.data.dataset import TaskData
    from trainables.data.images import ImageSet

_PASSAGE_WORDS = 8
"""The minimum length of a passage. Shorter passages, such as headings, may occur in unrelated texts."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The items of the forget set that are also in the retain set.

    Attributes:
        unit: the noun for one item: ``row``, ``passage`` or ``image``.
        items: the common items as texts, in the order of the forget set.
        total: the number of items in the forget set.
        ignored: what may differ between equal items, in words; "" if nothing may differ.
    """

    unit: str
    items: tuple[str, ...]
    total: int
    ignored: str = ""


def overlap(data: TaskData) -> Overlap:
    """Return the items of the forget set that are also in the retain set.

    Two rows are equal if they have the same words, so case, spaces and punctuation do not matter. If a set is one long
    text, the passages between blank lines are compared instead. Images are equal if their pixels are.
    """
    if isinstance(data, UnlearningData):
        is_corpus = any(len(examples) == 1 and examples[0].is_text for examples in (data.forget, data.retain))
        split = _passages if is_corpus else _rows
        forget = list(split(data.forget))
        retain_keys = {key for key, _ in split(data.retain)}
        common = tuple(text for key, text in forget if key in retain_keys)
        return Overlap("passage" if is_corpus else "row", common, len(forget), "case, spaces or punctuation")
    forget_images, retain_images = list(_images(data.forget)), {pixels for _, pixels in _images(data.retain)}
    common = tuple(f"image {index}" for index, pixels in forget_images if pixels in retain_images)
    return Overlap("image", common, len(forget_images))


def unscored_retain(data: TaskData) -> list[int]:
    """Return the indices of the retain examples that the evaluation set does not contain."""
    if isinstance(data, UnlearningData):
        scored = {(item.question, item.answer) for item in data.retain_eval}
        return [index for index, item in enumerate(data.retain) if (item.question, item.answer) not in scored]
    scored_images = set(data.retain_eval)
    return [index for index, image in enumerate(data.retain) if image not in scored_images]


def _rows(examples: Sequence[Example]) -> Iterator[tuple[object, str]]:
    """Yield the key and the text of each example."""
    for item in examples:
        yield (_key(item.question), _key(item.answer)), f"{item.question} {item.answer}".strip()


def _passages(examples: Sequence[Example]) -> Iterator[tuple[object, str]]:
    for item in examples:
        for passage in item.answer.split("\n\n"):
            key = _key(passage)
            if len(key) >= _PASSAGE_WORDS:
                yield key, passage.strip()


def _key(text: str) -> tuple[str, ...]:
    return tuple(words(text)) or (text.strip(),)  # a text of symbols has no words


def _images(images: ImageSet) -> Iterator[tuple[int, bytes]]:
    for index in images:
        yield index, images.source.pixels[index].tobytes()
