"""A process or a worker prepares the same target as the driver would, and it ends up in the driver's cache."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import ray
from ray.exceptions import NodeDiedError, RayTaskError
from rich.console import Console

from sweeper.execution.fork_server import fork_server, is_possible
from sweeper.execution.target_process import serve, target_process
from sweeper.execution.target_task import TargetTask, prepare_for_sweep
from tests.sweeper.conftest import SETTINGS, wait_until, write_questions
from trainables.models.weights import LoadError
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, TargetError
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target import Target, target_spec_of
from trainables.target.training import Progress


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


@pytest.fixture(scope="module", params=["forked", pytest.param("new", marks=pytest.mark.slow)])
def python(request: pytest.FixtureRequest) -> Iterator[Sequence[str] | None]:
    """The command that starts a process, with and without the server of the workers."""
    if request.param == "new":
        yield None
    elif is_possible():
        with fork_server(threads=1) as command:
            yield command
    else:
        pytest.skip("processes are forked only on Linux")


def test_the_process_prepares_the_same_target_as_this_process(
    spec: TrialSpec, tmp_path: Path, python: Sequence[str] | None
) -> None:
    shown: list[Progress] = []

    def prepare(spec: TrialSpec) -> Target:
        with target_process(spec, python=lambda: python) as wait:
            assert wait is not None
            wait(spec, shown.append)
        with target_process(spec, python=lambda: python) as wait:
            assert wait is None, "the target and its scores are in the cache"
        return prepare_target(spec)

    trained, own = prepare(spec), prepare_target(spec, device="cpu", cache=tmp_path / "own")
    assert [step.done for step in shown] == [1]
    assert replace(trained, path="") == replace(own, path="")
    assert prepare(replace(spec, model_path=None, target_path=trained.path)).baseline == own.baseline


def test_errors_of_the_process_are_raised_in_the_driver(
    spec: TrialSpec, tmp_path: Path, python: Sequence[str] | None
) -> None:
    (tmp_path / "base" / "model.safetensors").write_bytes(b"no weights")
    with target_process(spec, python=lambda: python) as wait:
        assert wait is not None
        with pytest.raises(LoadError, match="base"):
            wait(spec, lambda step: None)


def test_the_process_ends_with_the_block_and_a_killed_process_is_an_error(
    spec: TrialSpec, python: Sequence[str] | None
) -> None:
    long = replace(spec, target_epochs=10_000)  # the process does not end before it is killed

    def started() -> list[psutil.Process]:
        children = psutil.Process().children()
        return children if python is None else [fork for child in children for fork in child.children()]

    with target_process(long, python=lambda: python):
        wait_until(lambda: bool(started()))
    wait_until(lambda: not started())
    with target_process(long, python=lambda: python) as wait:
        assert wait is not None
        wait_until(lambda: bool(started()))
        for process in started():
            process.kill()
        with pytest.raises(TargetError, match="memory"):
            wait(long, lambda step: None)


def test_a_driver_that_is_interrupted_before_it_sends_the_spec_ends_the_process_silently() -> None:
    ours, theirs = Pipe()
    ours.close()
    serve(theirs)


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
        monkeypatch.setattr("sweeper.execution.target_task.local_gpu_count", lambda: 0)

    def slots(self, *, shared_folders: tuple[Path, ...]) -> int:
        self.shared.append(shared_folders)
        return 1

    def start(self) -> SimpleNamespace:
        self.workers += 1
        task = TargetTask()
        return SimpleNamespace(prepare=self.method(task.prepare), pop_progress=self.method(task.pop_progress))

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
