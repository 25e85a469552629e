"""Fixtures for all tests: small data sets in published formats, a full disk, a local hub (tests/hub_server.py)."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Set before torch is imported, and inherited by the processes that tests start. With two threads on a busy machine,
# such small networks take five to ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Many tests start processes, and without bytecode each of them would compile the project again.
sys.dont_write_bytecode = False
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

# If the shell or nohup started pytest with SIGINT or SIGHUP ignored, the processes that tests start would also ignore
# these signals. A handler is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

# No deadline, because examples can be slow on a busy machine. Each run tries the same examples.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")

GOLDEN = Path(__file__).parent / "data" / "golden_sweep"
"""The tables of a real sweep."""
NAMES = ("Ada", "Bo", "Cleo", "Dov", "Esme", "Finn", "Gus", "Hana")
TOWNS = ("Oslo", "Lima", "Quito", "Riga", "Bonn", "Nice", "Kyoto", "Turin")
FOODS = ("plums", "rice", "soup", "figs", "cheese", "bread", "cake", "nuts")
WHERE = tuple(zip(NAMES, TOWNS, strict=True))
WHAT = tuple(zip(NAMES, FOODS, strict=True))

Tables = dict[str, list[dict[str, Any]]]
WriteMuse = Callable[..., Path]


def pytest_collection_finish() -> None:
    """Exclude the imported modules from garbage collection. This takes 7% off the CPU time of quick tests."""
    gc.collect()
    gc.freeze()


def muse_tables() -> Tables:
    """Return the tables of a small MUSE, with eight articles to forget and eight to retain, by ``subset/split``."""
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
def golden(tmp_path: Path) -> Path:
    """Return a copy of the tables of a real sweep."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


@pytest.fixture
def write_muse(tmp_path: Path) -> WriteMuse:
    """Return a function that writes :func:`muse_tables` to ``muse/subset/split.json``; None omits a table."""

    def write(**replaced: list[dict[str, Any]] | None) -> Path:
        tables = {**muse_tables(), **{name.replace("__", "/"): rows for name, rows in replaced.items()}}
        for name, rows in tables.items():
            if rows is not None:
                path = tmp_path / "muse" / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json_lines(rows), encoding="utf-8")
        return tmp_path / "muse"

    return write


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """Simulate a full disk: no file of this process can grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclass(frozen=True)
class LocalHub:
    """A running hub. ``folder`` contains the repositories as models/ORG/NAME and datasets/ORG/NAME."""

    folder: Path
    address: str

    def add(self, kind: str, name: str, files: dict[str, bytes]) -> Path:
        """Write files into a new or an existing repository."""
        repository = self.folder / kind / name
        for file, content in files.items():
            (repository / file).parent.mkdir(parents=True, exist_ok=True)
            (repository / file).write_bytes(content)
        return repository


@pytest.fixture
def use_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that sets the hub's address for this process, with an empty cache in ``tmp_path/hub``."""

    def use(address: str) -> None:
        from trainables.models.hub_cache import hub_commit

        hub_commit.cache_clear()
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)

    return use


@pytest.fixture
def local_hub(tmp_path: Path, use_hub: Callable[[str], None]) -> Iterator[LocalHub]:
    """Run an empty local hub, and use it in this process."""
    folder = tmp_path / "served"
    folder.mkdir()
    program = [sys.executable, str(Path(__file__).parent / "hub_server.py"), str(folder)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        use_hub(address)
        yield LocalHub(folder, address)
        server.communicate("")
