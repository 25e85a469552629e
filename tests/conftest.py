"""A hub on this machine for all tests that need one (tests/hub_server.py), and no hub for those that do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class LocalHub:
    """A running hub: ``folder`` has its repositories as models/ORG/NAME and datasets/ORG/NAME."""

    folder: Path
    address: str

    def add(self, kind: str, name: str, files: dict[str, bytes]) -> Path:
        """Put files into a repository, a new one or one that is there."""
        repository = self.folder / kind / name
        for file, content in files.items():
            (repository / file).parent.mkdir(parents=True, exist_ok=True)
            (repository / file).write_bytes(content)
        return repository


@pytest.fixture
def use_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes an address the hub of this process, with an empty cache in ``tmp_path/hub``."""

    def use(address: str) -> None:
        from trainables.hub import _commit

        _commit.cache_clear()
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)

    return use


@pytest.fixture
def local_hub(tmp_path: Path, use_hub: Callable[[str], None]) -> Iterator[LocalHub]:
    """An empty hub on the loopback address, in use in this process."""
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
