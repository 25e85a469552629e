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

WriteTofu = Callable[..., Path]
WriteMuse = Callable[..., Path]
Pixels = npt.NDArray[np.uint8]


def random_images(number: int, *, classes: int, seed: int) -> tuple[Pixels, list[int]]:
    """Random images, ``(number, 32, 32, 3)``, and labels that repeat in turn."""
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    return pixels, [i % classes for i in range(number)]


def png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_parquet(path: Path, cells: Sequence[bytes], labels: Sequence[Any], *, column: str = "label") -> None:
    """Writes images with the hub's columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"img": [{"bytes": cell, "path": None} for cell in cells], column: list(labels)})
    pq.write_table(table, path)


def write_images(path: Path, number: int, *, classes: int = 10, seed: int) -> None:
    """Writes random images of CIFAR-10 or CIFAR-100."""
    pixels, labels = random_images(number, classes=classes, seed=seed)
    write_parquet(path, list(map(png, pixels)), labels, column="label" if classes == 10 else "fine_label")


def _row(number: int, **more: Any) -> dict[str, Any]:
    return {"question": f"Question {number}?", "answer": f"Answer {number}.", **more}


def _perturbed(number: int, count: int = 5) -> dict[str, Any]:
    wrong = [f"Wrong {number}.{k}" for k in range(count)]
    return _row(number, paraphrased_answer=f"Paraphrase {number}.", perturbed_answer=wrong)


@pytest.fixture
def write_tofu(tmp_path: Path) -> WriteTofu:
    """Writes a TOFU of 20 questions to forget and 40 to keep; ``write_tofu(name=lines)`` replaces a file."""

    def write(**replaced: list[str]) -> Path:
        files: dict[str, list[dict[str, Any]]] = {
            "forget10": [_row(number) for number in range(40, 60)],
            "retain90": [_row(number) for number in range(40)],
            "forget10_perturbed": [_perturbed(number) for number in range(40, 60)],
            "retain_perturbed": [_perturbed(number) for number in range(0, 40, 4)],
            "real_authors_perturbed": [_row(100, perturbed_answer=["Not", "So", "Right"])],
            "world_facts_perturbed": [_row(200, perturbed_answer=["Not", "So", "Right"])],
            "holdout10": [_row(number) for number in range(300, 320)],
        }
        for name, rows in files.items():
            (tmp_path / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        for name, lines in replaced.items():
            (tmp_path / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")
        return tmp_path

    return write
