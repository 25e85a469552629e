"""The data of an image unlearning task: labelled pixels in one array, and the sets as rows of the array."""

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
"""The most retained training images on which losses and accuracies are computed."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """All images of a data set.

    Attributes:
        pixels: ``(N, H, W, C)`` uint8; 0 is black and ``white`` is white.
        labels: ``(N,)`` int64, from 0 to ``len(classes) - 1``.
        classes: the name of each label.
        white: the largest value a pixel can have.
        mean, std: of each channel over the training images, on the scale from 0 (black) to 1 (white).
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    white: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @cached_property
    def content_hash(self) -> str:
        """A hash of pixels, labels and classes; CIFAR's 150 MB take 0.1 to 0.2 s, once."""
        digest = hashlib.sha256(repr((self.pixels.shape, self.classes, self.white, self.mean, self.std)).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Some images of a data set: ``rows`` of ``source``, ``(n,)`` int64. Nothing is copied."""

    source: LabelledImages
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the images by row."""
        return iter(self.rows.tolist())

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The label of each image, ``(n,)``."""
        return self.source.labels[self.rows]

    def take(self, indices: Sequence[int]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """``(pixels, labels)`` of the images at ``indices``: ``(B, H, W, C)`` uint8 and ``(B,)`` int64."""
        chosen = self.rows[np.asarray(indices, dtype=np.int64)]
        return self.source.pixels[chosen], self.source.labels[chosen]

    @property
    def content_hash(self) -> str:
        """A hash of the images, their labels and their order."""
        rows = np.ascontiguousarray(self.rows, dtype="<i8").tobytes()
        return hashlib.sha256(self.source.content_hash.encode() + rows).hexdigest()


@dataclass(frozen=True, eq=False)
class ImageData:
    """The data of an image unlearning task: the sets of :class:`~trainables.data.examples.UnlearningData`, of images.

    Attributes:
        name: the data set and the forgotten class, for example ``cifar-10/dog``.
        forget: the images to forget, all of one class.
        retain: the training images of all other classes.
        full: all training images, which the target is trained on.
        forget_eval: the forget set.
        retain_eval: a fixed sample of the retain set, spread evenly over it.
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
        """The images of which all sets are rows."""
        return self.full.source

    def with_loss_examples(self, most: int) -> ImageData:
        """Return the data unchanged: losses and accuracies of images come from the same pass."""
        return self

    def retain_task(self) -> ImageData:
        """Return the retain model's data: the retain set replaces what a target learns and is evaluated on."""
        return replace(
            self,
            name=f"{self.name}, retain set",
            full=self.retain,
            forget=self.retain_eval,
            forget_eval=self.retain_eval,
        )

    @cached_property
    def content_hash(self) -> str:
        """A hash of every set and its images."""
        sets = (self.forget, self.retain, self.full, self.forget_eval, self.retain_eval, self.holdout)
        return hashlib.sha256("".join([self.name, *(part.content_hash for part in sets)]).encode()).hexdigest()


def forget_one_class(
    images: LabelledImages,
    *,
    dataset: str,
    train: npt.NDArray[np.int64],
    test: npt.NDArray[np.int64],
    forget_class: str,
    most: int | None = None,
    limit: int | None = None,
) -> ImageData:
    """Return the task of forgetting images of one class.

    Args:
        images: training and test images together.
        dataset: its name.
        train, test: the rows of ``images`` that are training and test images.
        forget_class: the class, by name or by number.
        most: forget the first ``most`` training images of the class; None forgets all. The others are only in ``full``.
        limit: the most retain images, spread evenly; ``full`` is then those and the forget set.

    Raises:
        DataError: the class is unknown, or nothing is left to forget or to retain.
    """
    number = class_number(images.classes, forget_class, dataset=dataset)
    labels = images.labels[train]
    forget = train[labels == number][:most]
    retain = train[labels != number]
    full = train
    if limit is not None:
        retain = _spread(retain, limit)
        full = np.concatenate([retain, forget])
    for part, rows in (("forget", forget), ("retain", retain)):
        if not len(rows):
            raise DataError(f"{dataset}: no training image is left to {part} with class {images.classes[number]}")
    forget_set = ImageSet(images, forget)
    return ImageData(
        name=f"{dataset}/{images.classes[number]}",
        forget=forget_set,
        retain=ImageSet(images, retain),
        full=ImageSet(images, full),
        forget_eval=forget_set,
        retain_eval=ImageSet(images, _spread(retain, RETAIN_SAMPLE)),
        holdout=ImageSet(images, test[images.labels[test] != number]),
    )


def class_number(classes: Sequence[str], wanted: str, *, dataset: str) -> int:
    """Return the label of the class with this name or number.

    Raises:
        DataError: the class is unknown.
    """
    if wanted in classes:
        return classes.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(classes):
        return int(wanted)
    names = ", ".join(classes) if len(classes) <= 20 else f"{', '.join(classes[:5])}, ... {classes[-1]}"
    raise DataError(
        f"--forget-class {wanted}: {dataset} has no such class; expected one of {names}, "
        f"or a number from 0 to {len(classes) - 1}"
    )


def _spread(rows: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Return at most ``most`` of the rows, evenly spaced, including the first."""
    if len(rows) <= most:
        return rows
    return rows[np.arange(most) * len(rows) // most]
