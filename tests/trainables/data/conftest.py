"""Small copies of published data sets, in their own layouts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

WriteTofu = Callable[..., Path]
WriteMuse = Callable[..., Path]
Pixels = npt.NDArray[np.uint8]


def random_images(number: int, *, classes: int, seed: int) -> tuple[Pixels, list[int]]:
    """Random images, ``(number, 32, 32, 3)``, and labels that repeat in turn."""
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    return pixels, [i % classes for i in range(number)]


def write_batch(path: Path, pixels: Pixels, labels: list[int], *, key: bytes = b"labels") -> None:
    """A batch as Python 2 pickled the originals of CIFAR: red plane, green plane, blue plane, each row by row."""
    planes = np.stack([pixels[..., channel].reshape(len(pixels), -1) for channel in range(3)], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({b"data": planes.reshape(len(pixels), -1), key: labels}, protocol=2))


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
