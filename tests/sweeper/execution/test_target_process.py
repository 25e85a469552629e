"""The target of a new sweep is fine-tuned in another process, with the same result as in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweeper.execution.target_process import target_process
from trainables.models.checkpoints import LoadError
from trainables.spec import TrialSpec
from trainables.target.cache import TargetError
from trainables.target.prepare import prepare_target
from trainables.target.training import Progress


def test_the_process_trains_the_same_target_as_this_process(spec: TrialSpec, tmp_path: Path) -> None:
    shown: list[Progress] = []
    with target_process(spec) as wait:
        assert wait is not None
        wait(spec, shown.append)
    assert [step.done for step in shown] == [1]
    cached, own = prepare_target(spec), prepare_target(spec, device="cpu", cache=tmp_path / "own")
    assert replace(cached, path="") == replace(own, path="")
    with target_process(spec) as wait:
        assert wait is None, "the target is in the cache"


def test_errors_of_the_process_are_raised_in_the_driver(spec: TrialSpec, tmp_path: Path) -> None:
    (tmp_path / "base" / "model.safetensors").write_bytes(b"no weights")
    with target_process(spec) as wait:
        assert wait is not None
        with pytest.raises(LoadError, match="base"):
            wait(spec, lambda step: None)
    assert not psutil.Process().children(), "the process ends with the block"


def test_a_killed_process_is_an_error_with_its_cause(spec: TrialSpec) -> None:
    with target_process(spec) as wait:
        assert wait is not None
        for child in psutil.Process().children():
            child.kill()
        with pytest.raises(TargetError, match="memory"):
            wait(spec, lambda step: None)
