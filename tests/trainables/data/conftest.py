"""Small copies of published data sets, in their own layouts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

WriteMuse = Callable[..., Path]
Pixels = npt.NDArray[np.uint8]


def random_images(number: int, *, classes: int, seed: int) -> tuple[Pixels, list[int]]:
    """Return random images, ``(number, 32, 32, 3)``, and labels that repeat in turn."""
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    return pixels, [i % classes for i in range(number)]


def png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_parquet(path: Path, cells: Sequence[bytes], labels: Sequence[Any], *, column: str = "label") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"img": [{"bytes": cell, "path": None} for cell in cells], column: list(labels)})
    pq.write_table(table, path)


def write_images(path: Path, number: int, *, classes: int = 10, seed: int) -> None:
    pixels, labels = random_images(number, classes=classes, seed=seed)
    write_parquet(path, list(map(png, pixels)), labels, column="label" if classes == 10 else "fine_label")


def _rows(numbers: Sequence[int], *, perturbed: bool = False) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"question": f"Question {n}?", "answer": f"Answer {n}."} for n in numbers]
    for n, row in zip(numbers, rows, strict=True):
        if perturbed:
            row |= {
                "paraphrased_answer": f"Paraphrase {n}.",
                "perturbed_answer": [f"Wrong {n}.{k}" for k in range(5)],
            }
    return rows


@pytest.fixture
def tofu_folder(tmp_path: Path) -> Path:
    """Write a TOFU of 20 questions to forget and 40 to retain."""
    files = {
        "forget10": _rows(range(40, 60)),
        "retain90": _rows(range(40)),
        "forget10_perturbed": _rows(range(40, 60), perturbed=True),
        "retain_perturbed": _rows(range(0, 40, 4), perturbed=True),
        "real_authors_perturbed": [_rows([100])[0] | {"perturbed_answer": ["Not", "So", "Right"]}],
        "world_facts_perturbed": _rows([200], perturbed=True),
        "holdout10": _rows(range(300, 320)),
    }
    for name, rows in files.items():
        (tmp_path / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path
