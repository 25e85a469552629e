"""The data of an image unlearning task. One array has all images, and each set lists indices into this array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from trainables.data.errors import DataError

RETAIN_SAMPLE = 5000
"""The maximum number of retain images for evaluation. At most half of the images are used for evaluation."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """All images of a data set.

    Attributes:
        pixels: ``(N, H, W, C)`` uint8, from 0 (black) to ``white``.
        labels: ``(N,)`` int64, from 0 to ``len(classes) - 1``.
        classes: the class name of each label.
        mean, std: the mean and the standard deviation of each channel over the training images, on a scale from 0 to 1.
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    white: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @cached_property  # takes 0.1 to 0.2 s for CIFAR
    def content_hash(self) -> str:
        digest = hashlib.sha256(repr((self.pixels.shape, self.classes, self.white, self.mean, self.std)).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A subset of a data set's images. ``rows`` ``(n,)`` int64 are the indices of the images in ``source``."""

    source: LabelledImages
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows.tolist())

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The label of each image, ``(n,)``."""
        return self.source.labels[self.rows]

    def take(self, indices: Sequence[int]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the pixels ``(B, H, W, C)`` uint8 and the labels ``(B,)`` int64 of the images at ``indices``."""
        selected_rows = self.rows[np.asarray(indices, dtype=np.int64)]
        return self.source.pixels[selected_rows], self.source.labels[selected_rows]

    @property
    def content_hash(self) -> str:
        """The hash of the images and labels, in order."""
        rows = np.ascontiguousarray(self.rows, dtype="<i8").tobytes()
        return hashlib.sha256(self.source.content_hash.encode() + rows).hexdigest()


@dataclass(frozen=True, eq=False)
class ImageData:
    """The data of an image unlearning task. :class:`~trainables.data.examples.UnlearningData` describes the sets.

    Attributes:
        name: the data set and the forgotten class, for example ``cifar-10/dog``.
        holdout: images of the retained classes that no model was trained on.
    """

    modality: ClassVar[str] = "vision"

    name: str
    forget: ImageSet
    retain: ImageSet
    full: ImageSet
    forget_eval: ImageSet
    retain_eval: ImageSet
    holdout: ImageSet

    @property
    def source(self) -> LabelledImages:
        return self.full.source

    def with_loss_examples(self, limit: int) -> ImageData:
        """Return the data unchanged: the retain loss is always evaluated on all of ``retain_eval``."""
        return self  # the accuracy needs a forward pass over all of them, which also gives the losses

    def with_sets(self, **sets: object) -> ImageData:
        raise DataError(f"--questions {', '.join(sets)}: image classifiers cannot answer questions")

    def retain_task(self) -> ImageData:
        """Return the data for training the retain model: ``full`` is the retain set."""
        return replace(
            self,
            name=f"{self.name}, retain set",
            full=self.retain,
            forget=self.retain_eval,
            forget_eval=self.retain_eval,
        )

    @cached_property
    def content_hash(self) -> str:
        sets = (self.forget, self.retain, self.full, self.forget_eval, self.retain_eval, self.holdout)
        return hashlib.sha256("".join([self.name, *(item.content_hash for item in sets)]).encode()).hexdigest()


def forget_one_class(
    images: LabelledImages,
    *,
    dataset: str,
    held_out: npt.NDArray[np.bool_],
    forget_class: str,
    max_forget: int | None = None,
    limit: int | None = None,
) -> ImageData:
    """Return the data for forgetting images of one class.

    Args:
        images: the training images and the test images.
        dataset: the name of the data set.
        held_out: ``(N,)``; whether an image is a test image.
        forget_class: the name or number of the class.
        max_forget: the maximum number of images to forget; None for all training images of the class.
        limit: the maximum number of retain images, evenly spaced; None for all. With a limit, ``full`` consists of the
            retain set and the forget set. Without a limit, ``full`` has all training images, also those images of the
            class that are not in the forget set.

    Raises:
        DataError: the class is unknown, or there are no images to forget or to retain.
    """
    label = class_number(images.classes, forget_class, dataset=dataset)
    in_class = images.labels == label
    forget = np.flatnonzero(in_class & ~held_out)[:max_forget]
    retain = np.flatnonzero(~in_class & ~held_out)
    full = np.flatnonzero(~held_out)
    if limit is not None:
        retain = _spread_evenly(retain, limit)
        full = np.concatenate([retain, forget])
    for set_name, rows in (("forget", forget), ("retain", retain)):
        if not len(rows):
            raise DataError(
                f"{dataset}: if class {images.classes[label]} is forgotten, there is no training image to {set_name}"
            )
    forget_set = ImageSet(images, forget)
    return ImageData(
        name=f"{dataset}/{images.classes[label]}",
        forget=forget_set,
        retain=ImageSet(images, retain),
        full=ImageSet(images, full),
        forget_eval=forget_set,
        retain_eval=ImageSet(images, _spread_evenly(retain, min(RETAIN_SAMPLE, (len(retain) + 1) // 2))),
        holdout=ImageSet(images, np.flatnonzero(~in_class & held_out)),
    )


def class_number(classes: Sequence[str], forget_class: str, *, dataset: str) -> int:
    """Return the label of a class, given its name or number."""
    if forget_class in classes:
        return classes.index(forget_class)
    if forget_class.isdecimal() and int(forget_class) < len(classes):
        return int(forget_class)
    names = ", ".join(classes) if len(classes) <= 20 else f"{', '.join(classes[:5])}, ... {classes[-1]}"
    raise DataError(
        f"--forget-class {forget_class}: {dataset} has no such class; expected one of {names}, "
        f"or a number from 0 to {len(classes) - 1}"
    )


def _spread_evenly(rows: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.int64]:
    if len(rows) <= limit:
        return rows
    return rows[np.arange(limit) * len(rows) // limit]
