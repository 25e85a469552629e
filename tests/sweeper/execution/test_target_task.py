"""A worker prepares the same target as the driver would, and it ends up in the driver's cache."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import ray
import torch
from ray.exceptions import NodeDiedError, RayTaskError
from rich.console import Console

from sweeper.execution.target_task import TargetTask, prepare_for_sweep, use_all_cores
from tests.sweeper.conftest import SETTINGS, write_questions
from trainables.models.checkpoints import LoadError
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, TargetError
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target import Target, target_spec_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty cache of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    return tmp_path / "driver" / "sweeper"


@pytest.fixture
def spec(tmp_path: Path, tiny_phi: Path, cache: Path) -> TrialSpec:
    """A spec with four questions and a tiny Phi that is fine-tuned on them for one step. The cache is empty."""
    data, base = write_questions(tmp_path / "data", count=2), shutil.copytree(tiny_phi, tmp_path / "base")
    given = {"data_dir": str(data), "model_path": str(base), "metrics": ("verbmem",), "max_length": 64}
    return TrialSpec(dataset="jsonl", target_epochs=1, **given)


@pytest.mark.parametrize(("given", "threads"), [("", 4), ("0", 4), ("many", 4), ("3", 3), ("2,1", 2)])
def test_a_worker_uses_all_cores_unless_the_user_gives_a_number_of_threads(
    given: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 8)
    monkeypatch.setattr(torch, "set_num_threads", found := Mock())
    use_all_cores(given)
    found.assert_called_once_with(threads)


class NodeCluster:
    """Replaces Ray: workers run in this process, with another folder as the node's cache.

    The first ``deaths`` workers die before they prepare anything.
    """

    def __init__(self, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node, self.monkeypatch = node, monkeypatch
        self.shared: list[tuple[Path, ...]] = []
        self.deaths = self.workers = self.killed = 0
        monkeypatch.setattr(ray, "remote", lambda **given: lambda actor: SimpleNamespace(remote=self.start))
        monkeypatch.setattr(ray, "get", Future.result)
        monkeypatch.setattr(ray, "wait", lambda calls, timeout: (calls, []))
        monkeypatch.setattr(ray, "kill", self.kill)

    def slots(self, *, sharing: tuple[Path, ...]) -> int:
        self.shared.append(sharing)
        return 1

    def start(self) -> SimpleNamespace:
        self.workers += 1
        task = TargetTask()
        return SimpleNamespace(prepare=self.method(task.prepare), news=self.method(task.news))

    def method(self, method: Callable[..., Any]) -> SimpleNamespace:
        def call(*arguments: Any) -> Future[Any]:
            done: Future[Any] = Future()
            if self.workers <= self.deaths:
                done.set_exception(NodeDiedError("its node died"))
                return done
            with self.monkeypatch.context() as there:
                there.setenv("XDG_CACHE_HOME", str(self.node))
                try:
                    done.set_result(method(*arguments))
                except Exception as error:
                    done.set_exception(RayTaskError("prepare", f"Traceback\n{error}", error).as_instanceof_cause())
            return done

        return SimpleNamespace(remote=call)

    def kill(self, worker: object) -> None:
        self.killed += 1


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeCluster:
    return NodeCluster(tmp_path / "node", monkeypatch)


def sweep_target(spec: TrialSpec, cluster: Any, **given: Any) -> tuple[Target, str]:
    """Return the target of a sweep, and the driver's output."""
    console = Console(file=io.StringIO(), width=200)
    settings = replace(SETTINGS, base=spec, address="auto", gpus_per_trial=0.25, **given)
    target = prepare_for_sweep(spec, settings=settings, cluster=cluster, out=Path("/out"), console=console)
    return target, console.file.getvalue()  # type: ignore[attr-defined]


def cached(spec: TrialSpec) -> Target:
    """Return the target in the driver's cache, or raise NotCached."""
    return Preparation(spec=target_spec_of(spec), cache=Cache(computing=False)).target()


def weights_of(folder: str | Path) -> bytes:
    return (Path(folder) / "model.safetensors").read_bytes()


def test_with_a_shared_cache_a_worker_prepares_the_same_target_as_the_driver(
    spec: TrialSpec, cluster: NodeCluster, tmp_path: Path, cache: Path
) -> None:
    target, printed = sweep_target(spec, cluster)
    assert cluster.shared == [(Path("/out"), cache)]
    assert "fine-tuning the target" in printed
    assert not cluster.node.exists(), "the node's own cache is not used"
    assert (*sweep_target(spec, cluster), cluster.workers) == (target, "", 1)
    own = prepare_target(spec, device="cpu", cache=tmp_path / "own")
    assert weights_of(target.path) == weights_of(own.path)
    assert replace(target, path="") == replace(own, path="")
    given, _ = sweep_target(replace(spec, model_path=None, target_path=target.path), cluster)
    assert (given.baseline, cluster.workers) == (own.baseline, 2)


def test_with_object_storage_the_driver_downloads_the_model_and_the_scores(
    spec: TrialSpec, cluster: NodeCluster, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "bucket").mkdir()
    target, _ = sweep_target(spec, cluster, storage=(tmp_path / "bucket").as_uri(), stored_as="one-0123")
    assert cluster.shared == [()], "no folder is shared"
    assert Path(target.path).is_relative_to(cache)
    assert weights_of(target.path) == weights_of(cluster.node / "sweeper/targets" / Path(target.path).name)
    assert cached(spec) == target


def test_with_object_storage_a_given_target_is_not_stored_in_the_cache(
    spec: TrialSpec, cluster: NodeCluster, tmp_path: Path, cache: Path
) -> None:
    """The cache names a model by its recipe, which says nothing about a model that the user gives."""
    own = prepare_target(replace(spec, target_epochs=2), device="cpu", cache=tmp_path / "own")
    (tmp_path / "bucket").mkdir()
    given = replace(spec, target_path=own.path)
    target, _ = sweep_target(given, cluster, storage=(tmp_path / "bucket").as_uri(), stored_as="one-0123")
    assert (target.path, target.baseline) == (own.path, own.baseline)
    assert [*cache.rglob("*.safetensors")] == []
    assert cached(given) == target


def test_a_worker_that_dies_is_restarted_twice(spec: TrialSpec, cluster: NodeCluster) -> None:
    cluster.deaths = 3
    with pytest.raises(TargetError, match=r"memory.*its node died"):
        sweep_target(spec, cluster)
    assert cluster.workers == cluster.killed == 3


def test_the_driver_prepares_the_target_if_a_node_does_not_see_its_folders(
    spec: TrialSpec, cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, cluster.deaths = TargetTask.prepare, 2

    def on_the_node(self: TargetTask, problem: Any, *places: Any) -> Any:
        return real(self, replace(problem, trial=replace(problem.trial, model_path="/nowhere/base")), *places)

    monkeypatch.setattr(TargetTask, "prepare", on_the_node)
    target, printed = sweep_target(spec, cluster)
    assert cluster.workers == cluster.killed == 3
    assert "/nowhere/base" in printed
    assert cached(spec) == target


def test_an_error_of_the_worker_is_raised_in_the_driver(spec: TrialSpec, cluster: NodeCluster, tmp_path: Path) -> None:
    (tmp_path / "base" / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(LoadError, match="base"):
        sweep_target(spec, cluster)


def test_an_unexpected_error_of_the_worker_is_printed_with_its_traceback(
    spec: TrialSpec, cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TargetTask, "prepare", Mock(side_effect=ValueError("a mistake in a plug-in")))
    with pytest.raises(TargetError, match="a mistake in a plug-in"):
        sweep_target(spec, cluster)
    assert "Traceback" in capsys.readouterr().err
