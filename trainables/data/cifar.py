"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): from the hub, from a folder of its parquet files, or of the original ones.

The forget set is the first 500 training images of one class in the order of the files; the retain set is all other
classes. CIFAR-100 has 500 training images of every class, CIFAR-10 has 5,000, of which 4,500 are then in neither set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.cifar_classes import CIFAR_10_CLASSES, CIFAR_100_CLASSES
from trainables.data.cifar_files import Labelled, read_batches, read_parquet, read_table
from trainables.data.errors import DataError
from trainables.data.images import ImageData, LabelledImages, forget_one_class

FORGET_IMAGES = 500


@dataclass(frozen=True, slots=True)
class Variant:
    """What tells the two data sets apart; ``mean`` and ``std`` are those of the 50,000 training images."""

    hub_id: str
    classes: tuple[str, ...]
    forget_class: str
    label_column: str
    pickled_labels: bytes
    train_batches: tuple[str, ...]
    test_batches: tuple[str, ...]
    batches_folder: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


VARIANTS = {
    "cifar-10": Variant(
        hub_id="uoft-cs/cifar10",
        classes=CIFAR_10_CLASSES,
        forget_class="dog",
        label_column="label",
        pickled_labels=b"labels",
        train_batches=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test_batches=("test_batch",),
        batches_folder="cifar-10-batches-py",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    ),
    "cifar-100": Variant(
        hub_id="uoft-cs/cifar100",
        classes=CIFAR_100_CLASSES,
        forget_class="bed",
        label_column="fine_label",
        pickled_labels=b"fine_labels",
        train_batches=("train",),
        test_batches=("test",),
        batches_folder="cifar-100-python",
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    ),
}


def load_cifar(
    name: str, *, forget_class: str | None = None, data_dir: Path | None = None, limit: int | None = None
) -> ImageData:
    """``cifar-10`` or ``cifar-100``; ``data_dir`` holds the hub's parquet files or the original python batches.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or there is no such class.
    """
    variant = VARIANTS[name]
    train, test = _from_hub(variant) if data_dir is None else _from_folder(name, data_dir)
    images = _join(variant, train, test)
    rows = np.arange(len(images.labels), dtype=np.int64)
    return forget_one_class(
        images,
        dataset=name,
        train=rows[: len(train.labels)],
        test=rows[len(train.labels) :],
        forget_class=forget_class or variant.forget_class,
        most=FORGET_IMAGES,
        limit=limit,
    )


def _join(variant: Variant, train: Labelled, test: Labelled) -> LabelledImages:
    labels = np.concatenate([train.labels, test.labels])
    if labels.min() < 0 or labels.max() >= len(variant.classes):
        raise DataError(
            f"{variant.hub_id}: a label is {labels.max() if labels.min() >= 0 else labels.min()}, "
            f"expected from 0 to {len(variant.classes) - 1}"
        )
    return LabelledImages(
        pixels=np.concatenate([train.pixels, test.pixels]),
        labels=labels,
        classes=variant.classes,
        white=255,
        mean=variant.mean,
        std=variant.std,
    )


def _from_folder(name: str, folder: Path) -> tuple[Labelled, Labelled]:
    """The training and the test images in a folder, in whichever of the two formats it has."""
    variant = VARIANTS[name]
    if not folder.is_dir():
        raise DataError(f"cannot read {folder}: no such folder; --data-dir needs the files of {name}")
    for place in (folder, folder / variant.batches_folder):
        if (place / variant.train_batches[0]).is_file():
            parts = [
                _read(read_batches, [place / file for file in files], variant.pickled_labels)
                for files in (variant.train_batches, variant.test_batches)
            ]
            return parts[0], parts[1]
    found = {split: sorted(folder.rglob(f"{split}-*.parquet")) for split in ("train", "test")}
    if not found["train"]:
        raise DataError(
            f"{folder}: no files of {name} in it; expected the hub's train-*.parquet and test-*.parquet, "
            f"or the original {variant.train_batches[0]} and {variant.test_batches[0]}"
        )
    if not found["test"]:
        raise DataError(f"{folder}: it has train-*.parquet and no test-*.parquet")
    return (
        _read(read_parquet, found["train"], variant.label_column),
        _read(read_parquet, found["test"], variant.label_column),
    )


def _read(reader: Callable[[list[Path], Any], Labelled], files: list[Path], labels: str | bytes) -> Labelled:
    """``reader(files, labels)``; a command that checks the data and then loads them reads unchanged files once."""
    try:
        stamps = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}; --data-dir needs all files") from None
    return _read_once(reader, stamps, labels)


@lru_cache(maxsize=4)
def _read_once(
    reader: Callable[[list[Path], Any], Labelled], stamps: tuple[tuple[str, int, int], ...], labels: str | bytes
) -> Labelled:
    return reader([Path(path) for path, _, _ in stamps], labels)


def _from_hub(variant: Variant) -> tuple[Labelled, Labelled]:
    from datasets import load_dataset

    try:
        splits = load_dataset(variant.hub_id)
    except Exception as error:
        raise DataError(
            f"cannot load {variant.hub_id} from the hub: {str(error).splitlines()[0][:200]}; "
            "give its files with --data-dir DIR, or use --dataset digits"
        ) from error
    tables = [splits[split].with_format("arrow")[:] for split in ("train", "test")]
    train, test = (read_table(table, variant.label_column, where=variant.hub_id) for table in tables)
    return train, test
