"""Read CIFAR's images from its two file formats: the hub's parquet files (a PNG per row), and the authors' batches."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainables.data.cifar_variants import Variant
from trainables.data.errors import DataError
from trainables.data.hub_tables import load_hub
from trainables.data.images import LabelledImages

SIDE = 32


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images: ``pixels`` ``(N, 32, 32, 3)`` uint8 (red, green, blue), and ``labels`` ``(N,)`` int64."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


Rows = npt.NDArray[np.int64]


def read_images(variant: Variant, folder: Path | None) -> tuple[LabelledImages, Rows, Rows]:
    """Read all images from a folder, or from the hub if ``folder`` is None. Return them, and the train and test rows.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    if folder is None:
        splits = load_hub(variant.hub_id, instead="digits")
        tables = [splits[split].with_format("arrow")[:] for split in ("train", "test")]
        train, test = (_read_table(table, variant.label_column, where=variant.hub_id) for table in tables)
    else:
        train, test = _from_folder(variant, folder)
    rows = np.arange(len(train.labels) + len(test.labels), dtype=np.int64)
    return _join(variant, train, test), rows[: len(train.labels)], rows[len(train.labels) :]


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


def _from_folder(variant: Variant, folder: Path) -> tuple[Labelled, Labelled]:
    """Read the training images and the test images from a folder, in either format."""
    if not folder.is_dir():
        raise DataError(f"cannot read {folder}: no such folder; --data-dir needs the files of {variant.name}")
    for place in (folder, folder / variant.batches_folder):
        if (place / variant.train_batches[0]).is_file():
            train, test = (
                _read(_read_batch, [place / file for file in files], variant.pickled_labels)
                for files in (variant.train_batches, variant.test_batches)
            )
            return train, test
    found = {split: sorted(folder.rglob(f"{split}-*.parquet")) for split in ("train", "test")}
    if not found["train"]:
        raise DataError(
            f"{folder}: no files of {variant.name} in it; expected the hub's train-*.parquet and test-*.parquet, "
            f"or the original {variant.train_batches[0]} and {variant.test_batches[0]}"
        )
    if not found["test"]:
        raise DataError(f"{folder}: it has train-*.parquet but no test-*.parquet")
    train, test = (_read(_read_parquet, files, variant.label_column) for files in found.values())
    return train, test


def _read(reader: Callable[[Path, Any], Labelled], files: list[Path], labels: str | bytes) -> Labelled:
    """Return the images of all files, in order. They are cached, because the data are read for checks and for training;
    changed files are read again."""
    try:
        stamps = tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}; --data-dir needs all files") from None
    return _read_once(reader, stamps, labels)


@lru_cache(maxsize=4)
def _read_once(
    reader: Callable[[Path, Any], Labelled], stamps: tuple[tuple[Path, int, int], ...], labels: str | bytes
) -> Labelled:
    parts = [reader(path, labels) for path, _, _ in stamps]
    return Labelled(np.concatenate([part.pixels for part in parts]), np.concatenate([part.labels for part in parts]))


def _read_parquet(path: Path, label_column: str) -> Labelled:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read {path}: {_line(error)}") from None
    return _read_table(table, label_column, where=str(path))


def _read_table(table: Any, label_column: str, *, where: str) -> Labelled:
    """Return the images of an Arrow table with the columns ``img`` (a struct with the PNG's ``bytes``) and
    ``label_column``.

    Raises:
        DataError: a column is missing, a row has no image of 32 x 32 pixels, or a label is not a whole number.
    """
    from PIL import Image

    for column in ("img", label_column):
        if column not in table.column_names:
            raise DataError(f"{where}: no column '{column}'; its columns are {', '.join(table.column_names)}")
    pixels = np.empty((table.num_rows, SIDE, SIDE, 3), dtype=np.uint8)
    for row, cell in enumerate(table.column("img")):
        try:
            with Image.open(io.BytesIO(cell.as_py()["bytes"])) as image:
                decoded = np.asarray(image.convert("RGB"))
        except Exception as error:
            raise DataError(f"{where}, row {row + 1}: column 'img' holds no image ({_line(error)})") from None
        if decoded.shape != (SIDE, SIDE, 3):
            height, width = decoded.shape[:2]
            raise DataError(f"{where}, row {row + 1}: the image has {height} x {width} pixels, expected 32 x 32")
        pixels[row] = decoded
    try:
        labels = table.column(label_column).to_numpy().astype(np.int64, casting="safe")
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: column '{label_column}' must hold whole numbers ({_line(error)})") from None
    if not len(labels):
        raise DataError(f"{where}: no rows")
    return Labelled(pixels, labels)


def _read_batch(path: Path, labels_key: bytes) -> Labelled:
    """Read one of the authors' pickled batches. Only arrays are unpickled."""
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; --data-dir needs all files") from None
    except Exception as error:
        raise DataError(f"{path}: not one of CIFAR's python batches ({_line(error)})") from None
    if not isinstance(batch, dict) or b"data" not in batch or labels_key not in batch:
        raise DataError(f"{path}: expected a dictionary with 'data' and '{labels_key.decode()}'")
    data, labels = np.asarray(batch[b"data"]), np.asarray(batch[labels_key])
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * SIDE * SIDE:
        raise DataError(f"{path}: 'data' must be bytes of shape (N, 3072), got {data.dtype} {data.shape}")
    if labels.shape != (len(data),) or not np.issubdtype(labels.dtype, np.integer) or not len(data):
        raise DataError(f"{path}: '{labels_key.decode()}' must have one whole number per image, got {labels.shape}")
    # A row has all red values of the image, then all green values, then all blue values.
    pixels = data.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return Labelled(np.ascontiguousarray(pixels), labels.astype(np.int64))


class _ArraysOnly(pickle.Unpickler):
    """Unpickles only what a numpy array needs, and raises UnpicklingError otherwise: a data file must not run code."""

    def find_class(self, module: str, name: str) -> Any:
        if name in ("_reconstruct", "scalar") and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return super().find_class("numpy._core.multiarray", name)
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it wants to load {module}.{name}")


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
