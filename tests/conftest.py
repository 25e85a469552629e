"""Folders of small data sets in the layouts of the published ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = ("Ada", "Bo", "Cleo", "Dov", "Esme", "Finn", "Gus", "Hana")
TOWNS = ("Oslo", "Lima", "Quito", "Riga", "Bonn", "Nice", "Kyoto", "Turin")
FOODS = ("plums", "rice", "soup", "figs", "cheese", "bread", "cake", "nuts")
WHERE = tuple(zip(NAMES, TOWNS, strict=True))
WHAT = tuple(zip(NAMES, FOODS, strict=True))

Tables = dict[str, list[dict[str, Any]]]
WriteMuse = Callable[..., Path]


def muse_tables() -> Tables:
    """A MUSE of eight articles to forget and eight to keep, by ``subset/split``."""
    forget = [f"{who} moved to {town} and lives there in a house by the river." for who, town in WHERE]
    retain = [f"Every morning {who} eats {food} at the market before work." for who, food in WHAT]
    holdout = [f"Nobody has heard of {who}, the baker of {town}." for who, town in zip(NAMES, TOWNS[::-1], strict=True)]
    texts = {"raw/forget": forget[:4], "raw/retain1": retain[:4], "raw/retain2": retain[4:]}
    texts |= {"train/forget": forget, "train/retain1": retain[:4], "train/retain2": retain[4:]}
    texts |= {"privleak/forget": forget[:2], "privleak/retain": retain[4:6], "privleak/holdout": holdout[:2]}
    texts |= {f"scal/forget_{k}": forget[: 2 * k] for k in (1, 2, 3, 4)}
    texts |= {f"sust/forget_{k}": forget[2 * k - 2 : 2 * k] for k in (1, 2, 3, 4)}
    tables: Tables = {name: [{"text": text} for text in rows] for name, rows in texts.items()}
    lives = [{"question": f"Where does {who} live?", "answer": town} for who, town in WHERE]
    eats = [{"question": f"What does {who} eat?", "answer": food} for who, food in WHAT]
    tables |= {"knowmem/forget_qa": lives[2:4], "knowmem/forget_qa_icl": lives[:2]}
    tables |= {"knowmem/retain_qa": eats[2:4], "knowmem/retain_qa_icl": eats[:2]}
    tables["verbmem/forget"] = [{"prompt": text[:20], "gt": text[20:]} for text in forget[:4]]
    return tables


def json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


@pytest.fixture
def write_muse(tmp_path: Path) -> WriteMuse:
    """Writes :func:`muse_tables` as ``muse/subset/split.json``; a table given as None is left out."""

    def write(**replaced: list[dict[str, Any]] | None) -> Path:
        tables = {**muse_tables(), **{name.replace("__", "/"): rows for name, rows in replaced.items()}}
        for name, rows in tables.items():
            if rows is not None:
                path = tmp_path / "muse" / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json_lines(rows), encoding="utf-8")
        return tmp_path / "muse"

    return write
