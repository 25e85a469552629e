"""Call ``prepare_target`` with its own cache, the tiny data and the tiny network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PhiForCausalLM

import trainables.models.tiny
from trainables.data.examples import UnlearningData
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.target.target import Target
from trainables.target.training import Progress

SPEC = TrialSpec(max_length=64, target_lr=1e-3, target_batch_size=8, target_epochs=2)


class Preparation:
    """Prepares a target. ``seen`` has the progress of the last preparation, one entry per trained epoch."""

    def __init__(self, cache: Path, data: UnlearningData) -> None:
        self.cache = cache
        self.data = data
        self.seen: list[Progress] = []

    def __call__(self, spec: TrialSpec = SPEC, **changes: Any) -> Target:
        self.seen = []
        values = {"device": "cpu", "cache": self.cache, "on_progress": self.seen.append, **changes}
        return prepare_target(spec, **values)

    @property
    def epochs(self) -> int:
        return len(self.seen)

    @property
    def folders(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "targets").glob("*"))


@pytest.fixture
def prepare(
    tmp_path: Path,
    tiny_data: UnlearningData,
    make_network: Callable[..., PhiForCausalLM],
    monkeypatch: pytest.MonkeyPatch,
) -> Preparation:
    made = Preparation(tmp_path / "cache", tiny_data)
    monkeypatch.setattr("trainables.target.target.load_data", lambda *arguments, **named: made.data)
    monkeypatch.setattr(trainables.models.tiny, "make_tiny", lambda name, tokenizer, seed=0: make_network())
    return made
