"""A target made by a worker is the target that the driver would have made, and ends in the driver's cache."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import NodeDiedError
from rich.console import Console

import sweeper.execution.target_task
from search_spaces.builtin import default_space
from sweeper.execution.target_task import Failed, Prepared, TargetTask, Unseen, is_prepared_remotely, prepare_for_sweep
from sweeper.settings.sweep_settings import SweepSettings
from tests.sweeper.conftest import write_questions
from trainables.methods import options_by_method
from trainables.spec import TrialSpec
from trainables.target.cache import Cache, NotCached
from trainables.target.finetune import TargetError
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target_spec import target_spec_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    return tmp_path / "driver" / "sweeper"


@pytest.fixture
def spec(tmp_path: Path, tiny_phi: Path) -> TrialSpec:
    """Four questions, and a tiny Phi that is fine-tuned on them for a step."""
    data, base = write_questions(tmp_path / "data", count=2), shutil.copytree(tiny_phi, tmp_path / "base")
    given = {"data_dir": str(data), "model_path": str(base), "metrics": ("verbmem",), "max_length": 64}
    return TrialSpec(dataset="jsonl", target_epochs=1, **given)


class NodeCluster:
    """In place of Ray: the worker runs in this process, where the node's own cache is another folder.

    The first ``deaths`` workers die before they tell anything.
    """

    def __init__(self, node: Path, monkeypatch: pytest.MonkeyPatch, *, deaths: int = 0) -> None:
        self.node, self.deaths = node, deaths
        self.monkeypatch = monkeypatch
        self.asked_for_slots: list[tuple[Path, ...]] = []
        self.workers = 0
        monkeypatch.setattr(sweeper.execution.target_task, "_task_news", self.told)
        monkeypatch.setattr(sweeper.execution.target_task, "gpus_here", lambda: 0)

    def slots(self, *, sharing: tuple[Path, ...]) -> int:
        self.asked_for_slots.append(sharing)
        return 1

    def told(self, problem: Any, settings: SweepSettings, cache: Path | None) -> Iterator[Any]:
        self.workers += 1
        if self.workers <= self.deaths:
            raise NodeDiedError("its node died")
        with self.monkeypatch.context() as there:
            there.setenv("XDG_CACHE_HOME", str(self.node))
            worker, news = TargetTask(problem, cache, settings.bucket), list[Any]()
            while not news or not isinstance(news[-1], Prepared | Failed | Unseen):
                news += worker.news()
        yield from news


MakeCluster = Callable[..., NodeCluster]


@pytest.fixture
def make_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeCluster:
    return lambda **given: NodeCluster(tmp_path / "node", monkeypatch, **given)


def settings_of(spec: TrialSpec, **given: Any) -> SweepSettings:
    space = default_space(methods=options_by_method(("gdiff",)))
    values = {"address": "auto", "gpus_per_trial": 0.25, **given}
    return SweepSettings(name="one", base=spec, space=space, trials=1, **values)


def sweep_target(spec: TrialSpec, cluster: Any, tmp_path: Path, **given: Any) -> tuple[Any, str]:
    """The target of a sweep, and what its driver printed."""
    file = io.StringIO()
    console = Console(file=file, width=200)
    target = prepare_for_sweep(
        spec, settings=settings_of(spec, **given), cluster=cluster, out=tmp_path / "out", console=console
    )
    return target, file.getvalue()


def weights_of(target: Any) -> bytes:
    return (Path(target.path) / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, True), ({"gpus_per_trial": "auto"}, True), ({"gpus_per_trial": 0.0}, False), ({"address": None}, False)],
)
def test_it_is_made_elsewhere_where_only_the_nodes_have_gpus(
    spec: TrialSpec, given: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper.execution.target_task, "gpus_here", lambda: 0)
    assert is_prepared_remotely(settings_of(spec, **given)) is expected
    monkeypatch.setattr(sweeper.execution.target_task, "gpus_here", lambda: 1)
    assert not is_prepared_remotely(settings_of(spec, **given))


def test_in_a_shared_cache_a_worker_makes_what_the_driver_would_have_made(
    spec: TrialSpec, make_cluster: MakeCluster, tmp_path: Path, cache: Path
) -> None:
    cluster = make_cluster()
    with pytest.raises(NotCached):
        Preparation(spec=target_spec_of(spec), cache=Cache(computing=False)).target()
    assert not cache.exists()
    target, said = sweep_target(spec, cluster, tmp_path)
    assert cluster.asked_for_slots == [((tmp_path / "out").resolve(), cache)]
    assert said
    assert not (tmp_path / "node").exists(), "nothing is where the driver and other nodes would not see it"

    again, said = sweep_target(spec, cluster, tmp_path)
    assert (again, said, cluster.workers) == (target, "", 1)

    own = prepare_target(spec, device="cpu", cache=tmp_path / "own")
    assert weights_of(target) == weights_of(own)
    assert replace(target, path="") == replace(own, path="")


def test_through_a_storage_the_driver_gets_model_and_scores(
    spec: TrialSpec, make_cluster: MakeCluster, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "bucket").mkdir()
    given = {"storage": (tmp_path / "bucket").as_uri(), "stored_as": "one-0123"}
    target, _ = sweep_target(spec, cluster := make_cluster(), tmp_path, **given)
    assert cluster.asked_for_slots == [()], "nothing is shared but the storage"
    assert Path(target.path).is_relative_to(cache)
    made = tmp_path / "node/sweeper/targets" / Path(target.path).name
    assert weights_of(target) == (made / "model.safetensors").read_bytes()
    assert Preparation(spec=target_spec_of(spec), cache=Cache(computing=False)).target() == target


def test_a_worker_that_dies_is_restarted_twice_and_what_it_cannot_see_is_left_to_the_driver(
    spec: TrialSpec, make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TargetError, match="its node died"):
        sweep_target(spec, cluster := make_cluster(deaths=3), tmp_path)
    assert cluster.workers == 3
    cluster = make_cluster(deaths=2)
    # The third worker's node does not see the base model: the driver makes the target.
    real = TargetTask._prepare

    def on_the_node(self: TargetTask, problem: Any, *places: Any) -> None:
        real(self, replace(problem, base_folder=Path("/nowhere/base")), *places)

    monkeypatch.setattr(TargetTask, "_prepare", on_the_node)
    target, said = sweep_target(spec, cluster, tmp_path)
    assert cluster.workers == 3
    assert "/nowhere/base" in said
    assert Path(target.path).is_dir()


def test_an_error_of_the_worker_is_the_drivers_own(spec: TrialSpec, make_cluster: MakeCluster, tmp_path: Path) -> None:
    (tmp_path / "base" / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(TargetError, match="base") as raised:
        sweep_target(spec, make_cluster(), tmp_path)
    assert "Traceback" not in str(raised.value)
