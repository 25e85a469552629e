"""CIFAR from a folder of the hub's parquet files, and the errors that name spoiled files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainables.data.conftest import png, random_images, write_images, write_parquet
from trainables.data import DataError, load_data

DOG = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with 20 training images and 10 test images in a subfolder."""
    write_images(tmp_path / "plain_text" / "train-00000-of-00001.parquet", 20, seed=0)
    write_images(tmp_path / "plain_text" / "test-00000-of-00001.parquet", 10, seed=1)
    return tmp_path


def test_the_images_are_those_that_were_written(folder: Path) -> None:
    data = load_data("cifar-10", data_dir=folder)
    (train, labels), (test, _) = random_images(20, classes=10, seed=0), random_images(10, classes=10, seed=1)
    assert np.array_equal(data.source.pixels, np.concatenate([train, test]))
    assert data.source.labels[:20].tolist() == labels
    assert (data.name, [*data.forget]) == ("cifar-10/dog", [DOG, DOG + 10])
    assert (len(data.retain), len(data.holdout)) == (18, 9)


def test_the_first_500_images_of_the_class_are_forgotten(tmp_path: Path) -> None:
    black = png(np.zeros((32, 32, 3), dtype=np.uint8))
    for part in range(5):
        write_parquet(tmp_path / f"train-{part}-of-5.parquet", [black] * 140, [DOG] * 120 + [0] * 20)
    write_parquet(tmp_path / "test-0-of-1.parquet", [black] * 14, [1] * 14)
    data = load_data("cifar-10", data_dir=tmp_path)
    assert data.forget.rows.tolist() == [row for row in range(700) if row % 140 < 120][:500]
    assert (len(data.retain), len(data.full)) == (100, 700)


SMALL, WHOLE = (png(np.zeros((size, size, 3), dtype=np.uint8)) for size in (16, 32))
ALPHA, DEEP = png(np.zeros((32, 32, 4), dtype=np.uint8)), png(np.zeros((32, 32), dtype=np.uint16))


@pytest.mark.parametrize(
    ("cells", "labels", "column", "fact"),
    [
        ([WHOLE, b"no image"], [0, 1], "label", "row 2: "),
        ([SMALL], [0], "label", "row 1: .*32 x 32"),
        ([WHOLE], [0], "fine_label", "'label'.*img, fine_label"),
        ([ALPHA], [0], "label", "row 1: .*without transparency, got RGBA"),
        ([DEEP], [0], "label", "row 1: .*RGB, L, P, 1.*got I;16"),
        ([WHOLE], [-1], "label", "from 0 to 9, got -1"),
        ([WHOLE], ["dog"], "label", "from 0 to 9, got 'dog'"),
        ([WHOLE], [3.5], "label", "from 0 to 9, got 3.5"),
    ],
)
def test_spoiled_files_are_named(
    folder: Path, cells: Sequence[bytes], labels: Sequence[Any], column: str, fact: str
) -> None:
    write_parquet(folder / "plain_text" / "train-00000-of-00001.parquet", cells, labels, column=column)
    with pytest.raises(DataError, match=fact):
        load_data("cifar-10", data_dir=folder)


def test_missing_and_torn_files_are_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.*parquet"):
        load_data("cifar-10", data_dir=tmp_path / "nowhere")
    train, test = (folder / "plain_text" / f"{split}-00000-of-00001.parquet" for split in ("train", "test"))
    train.write_bytes(train.read_bytes()[:500])
    with pytest.raises(DataError, match=train.name):
        load_data("cifar-10", data_dir=folder)
    test.unlink()
    with pytest.raises(DataError, match=r"plain_text/test"):
        load_data("cifar-10", data_dir=folder)


def test_images_are_decoded_once_and_a_changed_file_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_data("cifar-10", data_dir=folder)
    with monkeypatch.context() as patched:
        patched.setattr("trainables.data.cifar.load_tables", None)
        assert load_data("cifar-10", data_dir=folder, limit=5).source is before.source
    write_images(folder / "plain_text" / "test-00000-of-00001.parquet", 11, seed=1)
    assert len(load_data("cifar-10", data_dir=folder).source.labels) == len(before.source.labels) + 1


def test_the_hub_is_asked_for_the_published_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    real = datasets.load_dataset

    def load(repository: str, name: str, split: str) -> Any:
        assert (repository, name) == ("uoft-cs/cifar10", "plain_text")
        file = str(folder / name / f"{split}-00000-of-00001.parquet")
        loaded = real("parquet", data_files={split: file}, split=split, cache_dir=str(folder / "arrow"))
        return loaded.cast_column("img", datasets.Image())  # as in the hub's copy: images, decoded on access

    monkeypatch.setattr("datasets.load_dataset", load)
    assert load_data("cifar-10").content_hash == load_data("cifar-10", data_dir=folder).content_hash
