"""Small copies of published data sets, in their own layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteTofu = Callable[..., Path]


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
