"""CIFAR from a folder in both of its formats, and what is said of folders that are neither."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from trainables.data import DataError, load_data
from trainables.data.cifar import FORGET_IMAGES
from trainables.data.cifar_variants import CIFAR_10_CLASSES, CIFAR_100_CLASSES

Pixels = npt.NDArray[np.uint8]
DOG, BED = 5, 5
"""Both are the sixth of their data set's names."""


def made_up(number: int, *, classes: int, seed: int) -> tuple[Pixels, list[int]]:
    """Random images, ``(number, 32, 32, 3)``, and labels that go round."""
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    return pixels, [i % classes for i in range(number)]


def write_batch(path: Path, pixels: Pixels, labels: list[int], *, key: bytes = b"labels") -> None:
    """A batch as Python 2 pickled the originals: red plane, green plane, blue plane, each row after row."""
    planes = np.stack([pixels[..., channel].reshape(len(pixels), -1) for channel in range(3)], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({b"data": planes.reshape(len(pixels), -1), key: labels}, protocol=2))


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
    pixels, labels = made_up(20, classes=10, seed=0)
    for i in range(5):
        part = slice(4 * i, 4 * i + 4)
        write_batch(tmp_path / "cifar-10-batches-py" / f"data_batch_{i + 1}", pixels[part], labels[part])
    write_batch(tmp_path / "cifar-10-batches-py" / "test_batch", *made_up(10, classes=10, seed=1))
    return tmp_path


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """The same images as the hub has them."""
    for split, number, seed in (("train", 20, 0), ("test", 10, 1)):
        pixels, labels = made_up(number, classes=10, seed=seed)
        write_parquet(
            tmp_path / "plain_text" / f"{split}-00000-of-00001.parquet", [png(item) for item in pixels], labels
        )
    return tmp_path


@pytest.mark.parametrize("layout", ["batches", "parquet"])
def test_both_formats_give_the_images_that_were_written(layout: str, request: pytest.FixtureRequest) -> None:
    data = load_data("cifar-10", data_dir=request.getfixturevalue(layout))
    (train, labels), (test, _) = made_up(20, classes=10, seed=0), made_up(10, classes=10, seed=1)
    assert np.array_equal(data.source.pixels, np.concatenate([train, test]))
    assert data.source.labels[:20].tolist() == labels
    assert data.name == "cifar-10/dog"
    assert data.forget.rows.tolist() == [DOG, DOG + 10]
    assert len(data.retain) == 18
    assert len(data.holdout) == 9


def test_the_folder_of_the_batches_itself_may_be_given(batches: Path) -> None:
    outer, inner = (load_data("cifar-10", data_dir=path) for path in (batches, batches / "cifar-10-batches-py"))
    assert outer.content_hash == inner.content_hash


def test_cifar_100_has_fine_labels_and_forgets_beds(tmp_path: Path) -> None:
    write_batch(tmp_path / "train", *made_up(200, classes=100, seed=0), key=b"fine_labels")
    write_batch(tmp_path / "test", *made_up(100, classes=100, seed=1), key=b"fine_labels")
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


def hide_code(path: Path) -> None:
    path.write_bytes(pickle.dumps({b"data": _RunsCode(), b"labels": []}))


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "cannot read .*data_batch_3: No such file"),
    "cut short": (cut, "data_batch_3: not one of CIFAR's python batches"),
    "holding code": (hide_code, "data_batch_3: not one of CIFAR's python batches .it wants to load .*print"),
    "another dictionary": (
        lambda path: path.write_bytes(pickle.dumps({b"data": 1})),
        "dictionary with 'data' and 'labels'",
    ),
    "grey": (
        lambda path: path.write_bytes(pickle.dumps({b"data": np.zeros((2, 1024), np.uint8), b"labels": [0, 1]})),
        r"data_batch_3: 'data' must be bytes of shape \(N, 3072\), got uint8 \(2, 1024\)",
    ),
    "one label short": (
        lambda path: path.write_bytes(pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]})),
        r"data_batch_3: 'labels' must have one whole number per image",
    ),
    "a label too high": (
        lambda path: path.write_bytes(pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]})),
        "a label is 10, expected from 0 to 9",
    ),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_spoiled_batch_is_named(kind: str, batches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, message = SPOILED[kind]
    spoil(batches / "cifar-10-batches-py" / "data_batch_3")
    with pytest.raises(DataError, match=message):
        load_data("cifar-10", data_dir=batches)
    assert "must not run" not in capsys.readouterr().out


def test_spoiled_parquet_files_are_named(parquet: Path) -> None:
    file = parquet / "plain_text" / "train-00000-of-00001.parquet"
    small = png(np.zeros((16, 16, 3), dtype=np.uint8))
    whole = png(np.zeros((32, 32, 3), dtype=np.uint8))
    cases: list[tuple[Sequence[bytes], Sequence[Any], str, str]] = [
        ([whole, b"no image"], [0, 1], "label", "row 2: column 'img' holds no image"),
        ([small], [0], "label", "row 1: the image has 16 x 16 pixels, expected 32 x 32"),
        ([whole], [0], "fine_label", "no column 'label'; its columns are img, fine_label"),
        ([whole], ["dog"], "label", "column 'label' must hold whole numbers"),
        ([whole], [-1], "label", "a label is -1, expected from 0 to 9"),
    ]
    for cells, labels, column, message in cases:
        write_parquet(file, cells, labels, column=column)
        with pytest.raises(DataError, match=message):
            load_data("cifar-10", data_dir=parquet)
    cut(file)
    with pytest.raises(DataError, match=r"cannot read .*train-00000-of-00001.parquet"):
        load_data("cifar-10", data_dir=parquet)


def test_a_folder_without_the_files_says_what_belongs_there(tmp_path: Path, parquet: Path) -> None:
    with pytest.raises(DataError, match="no such folder; --data-dir needs the files of cifar-10"):
        load_data("cifar-10", data_dir=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"expected the hub's train-\*.parquet .* or the original train and test"):
        load_data("cifar-100", data_dir=tmp_path / "empty")
    (parquet / "plain_text" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"no test-\*.parquet"):
        load_data("cifar-10", data_dir=parquet)


def test_a_file_that_changed_is_read_again(batches: Path) -> None:
    before = load_data("cifar-10", data_dir=batches)
    write_batch(batches / "cifar-10-batches-py" / "test_batch", *made_up(11, classes=10, seed=1))
    assert len(load_data("cifar-10", data_dir=batches).source.labels) == len(before.source.labels) + 1


def test_the_hub_is_asked_for_the_published_repository(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load(name: str) -> Any:
        asked.append(name)
        files = {split: str(parquet / "plain_text" / f"{split}-00000-of-00001.parquet") for split in ("train", "test")}
        cache = str(parquet / "arrow")
        loaded = real("parquet", data_files=files, cache_dir=cache)
        # As the hub's copy describes itself: images, decoded on access.
        return loaded.cast_column("img", datasets.Image())

    real = datasets.load_dataset
    monkeypatch.setattr("datasets.load_dataset", load)
    data = load_data("cifar-10")
    assert asked == ["uoft-cs/cifar10"]
    assert data.content_hash == load_data("cifar-10", data_dir=parquet).content_hash
