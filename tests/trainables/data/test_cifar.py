"""CIFAR from a folder in both of its formats, and the errors that name spoiled files."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.trainables.data.conftest import Pixels, random_images, write_batch
from trainables.data import DataError, load_data
from trainables.data.cifar import FORGET_IMAGES
from trainables.data.cifar_variants import CIFAR_10_CLASSES, CIFAR_100_CLASSES

DOG, BED = 5, 5
"""Both are the sixth of their data set's names."""


def png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_parquet(path: Path, cells: Sequence[bytes], labels: Sequence[Any], *, column: str = "label") -> None:
    """The hub's columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"img": [{"bytes": cell, "path": None} for cell in cells], column: list(labels)})
    pq.write_table(table, path)


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    """CIFAR-10's own layout, four images in each of five batches, and a test batch of ten."""
    pixels, labels = random_images(20, classes=10, seed=0)
    for i in range(5):
        part = slice(4 * i, 4 * i + 4)
        write_batch(tmp_path / "cifar-10-batches-py" / f"data_batch_{i + 1}", pixels[part], labels[part])
    write_batch(tmp_path / "cifar-10-batches-py" / "test_batch", *random_images(10, classes=10, seed=1))
    return tmp_path


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """The same images as the hub has them."""
    for split, number, seed in (("train", 20, 0), ("test", 10, 1)):
        pixels, labels = random_images(number, classes=10, seed=seed)
        write_parquet(
            tmp_path / "plain_text" / f"{split}-00000-of-00001.parquet", [png(item) for item in pixels], labels
        )
    return tmp_path


@pytest.mark.parametrize("layout", ["batches", "parquet"])
def test_both_formats_give_the_images_that_were_written(layout: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(layout)
    data = load_data("cifar-10", data_dir=folder)
    (train, labels), (test, _) = random_images(20, classes=10, seed=0), random_images(10, classes=10, seed=1)
    assert np.array_equal(data.source.pixels, np.concatenate([train, test]))
    assert data.source.labels[:20].tolist() == labels
    assert data.name == "cifar-10/dog"
    assert data.forget.rows.tolist() == [DOG, DOG + 10]
    assert (len(data.retain), len(data.holdout)) == (18, 9)
    if layout == "batches":  # the inner folder may be given, too
        assert load_data("cifar-10", data_dir=folder / "cifar-10-batches-py").content_hash == data.content_hash


def test_cifar_100_has_fine_labels_and_forgets_beds(tmp_path: Path) -> None:
    write_batch(tmp_path / "train", *random_images(200, classes=100, seed=0), key=b"fine_labels")
    write_batch(tmp_path / "test", *random_images(100, classes=100, seed=1), key=b"fine_labels")
    data = load_data("cifar-100", data_dir=tmp_path)
    assert data.name == "cifar-100/bed"
    assert set(data.forget.labels) == {BED}
    assert data.source.classes[BED] == "bed"
    assert load_data("cifar-100", data_dir=tmp_path, forget_class="worm").forget.labels.tolist() == [99, 99]


def test_the_first_500_images_of_the_class_are_forgotten(tmp_path: Path) -> None:
    pixels = np.zeros((140, 32, 32, 3), dtype=np.uint8)
    for i in range(5):
        write_batch(tmp_path / f"data_batch_{i + 1}", pixels, [DOG] * 120 + [0] * 20)
    write_batch(tmp_path / "test_batch", pixels, [1] * 140)
    data = load_data("cifar-10", data_dir=tmp_path)
    dogs = [row for row in range(700) if row % 140 < 120]
    assert data.forget.rows.tolist() == dogs[:FORGET_IMAGES]
    assert len(data.retain) == 100
    assert len(data.full) == 700


def test_the_class_names_are_those_of_the_data_sets() -> None:
    ten, hundred = CIFAR_10_CLASSES, CIFAR_100_CLASSES
    assert (len(ten), ten.index("dog"), ten.index("truck")) == (10, DOG, 9)
    assert (len(hundred), len(set(hundred)), hundred.index("bed")) == (100, 100, BED)
    assert list(hundred) == sorted(hundred)


class _RunsCode:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("this must not run",))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


def batch_of(shape: tuple[int, ...] | None, labels: list[int]) -> Callable[[Path], object]:
    """Writes a batch of black images, or one that runs code when it is loaded."""
    data = _RunsCode() if shape is None else np.zeros(shape, np.uint8)
    return lambda path: path.write_bytes(pickle.dumps({b"data": data, b"labels": labels}))


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "data_batch_3: No such file"),
    "cut short": (cut, "data_batch_3: .*python batches"),
    "holding code": (batch_of(None, []), "data_batch_3: .*print"),
    "another dictionary": (lambda path: path.write_bytes(pickle.dumps({b"data": 1})), "'data' and 'labels'"),
    "grey": (batch_of((2, 1024), [0, 1]), r"\(N, 3072\), got uint8 \(2, 1024\)"),
    "one label short": (batch_of((2, 3072), [0]), "'labels'"),
    "a label too high": (batch_of((1, 3072), [10]), "10, expected from 0 to 9"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_spoiled_batch_is_named(kind: str, batches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, fact = SPOILED[kind]
    spoil(batches / "cifar-10-batches-py" / "data_batch_3")
    with pytest.raises(DataError, match=fact):
        load_data("cifar-10", data_dir=batches)
    assert "must not run" not in capsys.readouterr().out


def test_spoiled_parquet_files_are_named(parquet: Path) -> None:
    file = parquet / "plain_text" / "train-00000-of-00001.parquet"
    small, whole = (png(np.zeros((size, size, 3), dtype=np.uint8)) for size in (16, 32))
    cases: list[tuple[Sequence[bytes], Sequence[Any], str, str]] = [
        ([whole, b"no image"], [0, 1], "label", "row 2: .*'img'"),
        ([small], [0], "label", "row 1: .*16 x 16.*32 x 32"),
        ([whole], [0], "fine_label", "'label'.*img, fine_label"),
        ([whole], ["dog"], "label", "'label'.*whole numbers"),
        ([whole], [-1], "label", "-1, expected from 0 to 9"),
    ]
    for cells, labels, column, fact in cases:
        write_parquet(file, cells, labels, column=column)
        with pytest.raises(DataError, match=fact):
            load_data("cifar-10", data_dir=parquet)
    cut(file)
    with pytest.raises(DataError, match=r"train-00000-of-00001\.parquet"):
        load_data("cifar-10", data_dir=parquet)


def test_missing_files_are_named(tmp_path: Path, parquet: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.*cifar-10"):
        load_data("cifar-10", data_dir=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"train-\*.parquet .*train and test"):
        load_data("cifar-100", data_dir=tmp_path / "empty")
    (parquet / "plain_text" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"test-\*.parquet"):
        load_data("cifar-10", data_dir=parquet)


def test_a_changed_file_is_read_again(batches: Path) -> None:
    before = load_data("cifar-10", data_dir=batches)
    write_batch(batches / "cifar-10-batches-py" / "test_batch", *random_images(11, classes=10, seed=1))
    assert len(load_data("cifar-10", data_dir=batches).source.labels) == len(before.source.labels) + 1


def test_the_hub_is_asked_for_the_published_repository(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked, real = [], datasets.load_dataset

    def load(name: str) -> Any:
        asked.append(name)
        files = {split: str(parquet / "plain_text" / f"{split}-00000-of-00001.parquet") for split in ("train", "test")}
        loaded = real("parquet", data_files=files, cache_dir=str(parquet / "arrow"))
        return loaded.cast_column("img", datasets.Image())  # as in the hub's copy: images, decoded on access

    monkeypatch.setattr("datasets.load_dataset", load)
    data = load_data("cifar-10")
    assert asked == ["uoft-cs/cifar10"]
    assert data.content_hash == load_data("cifar-10", data_dir=parquet).content_hash
