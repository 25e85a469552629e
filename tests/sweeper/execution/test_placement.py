"""How many trials fit at once, and the errors if none does or a node differs. Ray only lists its nodes here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeper.execution.cluster import RAY_ENVIRONMENT, ray_cluster
from sweeper.execution.nodes import PROJECT, versions
from sweeper.execution.placement import PlacementError, address_problem, require_shared
from sweeper.settings.resources import Resources

Node = dict[str, object]
Answers = list[dict[str, list[str] | None]]


def node(*, cpus: float = 8, gpus: float = 0, alive: bool = True) -> Node:
    """A node as Ray describes it; a resource it has none of is not named at all."""
    resources = {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount}
    return {"Alive": alive, "Resources": resources, "NodeID": "n", "NodeManagerHostname": "host"}


class StubRay:
    """What ``ray_cluster`` did with Ray."""

    def __init__(self) -> None:
        self.joined: list[dict[str, Any]] = []
        self.left = 0


Install = Callable[..., StubRay]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    before = dict(os.environ)

    def install(*nodes: Node, error: Exception | None = None) -> StubRay:
        calls = StubRay()

        def init(**given: Any) -> None:
            calls.joined.append(given)
            if error is not None:
                raise error

        def shutdown() -> None:
            calls.left += 1

        monkeypatch.setattr(ray, "init", init)
        monkeypatch.setattr(ray, "nodes", lambda: list(nodes))
        monkeypatch.setattr(ray, "shutdown", shutdown)
        return calls

    yield install
    os.environ.clear()
    os.environ.update(before)


def slots(resources: Resources, *, address: str | None = None) -> int:
    with ray_cluster(address, resources=resources) as found:
        return found


FITS = {
    "one CPU each": ((1, 0), [node(cpus=8)], 8),
    "a tenth of a CPU each": ((0.1, 0), [node(cpus=2)], 20),
    "several nodes": ((2, 0), [node(cpus=3), node(cpus=5)], 3),
    "a dead node does not count": ((1, 0), [node(cpus=4), node(cpus=4, alive=False)], 4),
    "a quarter of a GPU each": ((1, 0.25), [node(cpus=8, gpus=1)], 4),
    "fractions are not split across GPUs": ((1, 0.6), [node(cpus=8, gpus=4)], 4),
    "a whole GPU each": ((1, 1), [node(cpus=8, gpus=3)], 3),
    "two GPUs each, not across nodes": ((1, 2), [node(cpus=8, gpus=3), node(cpus=8, gpus=1)], 1),
    "CPUs run out before GPUs": ((3, 0.25), [node(cpus=8, gpus=2)], 2),
    "a node without GPUs adds nothing": ((1, 0.5), [node(cpus=64), node(cpus=4, gpus=1)], 2),
}


@pytest.mark.parametrize(("resources", "nodes", "fit"), FITS.values(), ids=FITS)
def test_as_many_trials_run_at_once_as_fit(
    stub: Install, resources: tuple[float, float], nodes: list[Node], fit: int
) -> None:
    stub(*nodes)
    assert slots(Resources(*resources)) == fit


@pytest.mark.parametrize(
    ("resources", "nodes", "named"),
    [
        (Resources(1, 0.25), [node(cpus=8)], ["1 CPUs", "0.25 GPUs", "8 CPUs", "0 GPUs", "--gpus-per-trial"]),
        (Resources(64, 0), [node(cpus=8)], ["64 CPUs", "8 CPUs", "--cpus-per-trial"]),
        (Resources(1, 2), [node(gpus=1), node(gpus=1)], ["2 GPUs", "1 GPUs"]),
        (Resources(4, 1), [node(cpus=8), node(cpus=2, gpus=4)], ["2 CPUs", "4 GPUs"]),
    ],
    ids=["no GPU", "too many CPUs", "two GPUs on one node", "enough of each, but not together"],
)
def test_if_no_trial_fits_the_error_has_what_was_asked_for_and_what_the_nodes_have(
    stub: Install, resources: Resources, nodes: list[Node], named: list[str]
) -> None:
    calls = stub(*nodes)
    with pytest.raises(PlacementError) as caught:
        slots(resources)
    assert all(text in str(caught.value) for text in named)
    assert "\n" not in str(caught.value)
    assert calls.left == 1


def test_ray_is_started_here_without_an_address_and_joined_at_one(stub: Install) -> None:
    calls = stub(node())
    slots(Resources(1, 0))
    slots(Resources(1, 0), address="10.0.0.1:6379")
    assert [given["address"] for given in calls.joined] == ["local", "10.0.0.1:6379"]
    with pytest.raises(KeyboardInterrupt), ray_cluster(None, resources=Resources(1, 0)):
        raise KeyboardInterrupt
    assert calls.left == 3, "also if the sweep fails"


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
@pytest.mark.parametrize("error", [ConnectionError("no shared memory\nand a long story"), OSError()])
def test_the_error_of_ray_is_reported_with_the_address_if_there_is_one(
    stub: Install, error: Exception, address: str | None
) -> None:
    stub(error=error)
    with pytest.raises(PlacementError) as caught:
        slots(Resources(1, 0), address=address)
    assert (str(error).partition("\n")[0] or "OSError") in str(caught.value)
    assert (address or "this machine") in str(caught.value)
    assert "None" not in str(caught.value)


def test_what_the_user_has_set_in_rays_environment_stays(stub: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(node())
    for name in RAY_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "7")
    slots(Resources(1, 0))
    assert os.environ["TUNE_GLOBAL_CHECKPOINT_S"] == "7"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_one_machine_is_not_asked_whether_it_sees_its_own_folders(stub: Install) -> None:
    stub(node())
    require_shared((Path("/nowhere"),))


@pytest.fixture
def several(stub: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """What two nodes answer, time after time."""
    answers: Answers = []
    stub(node(), node())
    alike = {"a": versions(), "b": versions()}
    monkeypatch.setattr(
        "sweeper.execution.placement.ask_nodes",
        lambda question, *paths, nodes: alike if question is versions else answers.pop(0),
    )
    monkeypatch.setattr("sweeper.execution.placement.time.sleep", lambda seconds: None)
    return answers


def test_a_node_that_has_died_is_waited_for_until_ray_has_noticed(
    several: Answers,
) -> None:
    several += [{"a": [], "b": None}, {"a": [], "b": None}, {"a": []}]
    require_shared((Path("/shared"),))
    assert several == []


def test_a_node_that_is_silent_or_different_is_named(several: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    several += [{"a": [], "b": ["/shared"]}]
    with pytest.raises(PlacementError, match=r"node b .* /shared"):
        require_shared((Path("/shared"),))
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.execution.placement._DEAD_NODE_SECONDS", -1.0)
        several += [{"a": [], "b": None}]
        with pytest.raises(PlacementError, match="node b"):
            require_shared((Path("/shared"),))
    other = {"a": versions(), "b": versions() | {"torch": "1.0", "peft": None}}
    monkeypatch.setattr(
        "sweeper.execution.placement.ask_nodes",
        lambda question, *paths, nodes: other if question is versions else {"a": []},
    )
    with pytest.raises(PlacementError, match=r"node b .*torch 1\.0.*peft"):
        require_shared((Path("/shared"),))


@pytest.mark.parametrize("shipped", [True, False])
def test_a_project_that_is_sent_need_not_be_on_the_nodes_but_torch_must(
    shipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = versions() | {PROJECT: None}
    monkeypatch.setattr("sweeper.execution.placement.is_shipped", lambda: shipped)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}, {"Alive": True}])
    answers = {"versions": {"a": there, "b": there}}
    monkeypatch.setattr(
        "sweeper.execution.placement.ask_nodes",
        lambda question, *paths, nodes: answers.get(question.__name__, {"a": [], "b": []}),
    )
    if shipped:
        require_shared(())
        answers["versions"]["b"] = there | {"torch": "1.0"}
        with pytest.raises(PlacementError, match=r"node b .*torch 1\.0"):
            require_shared(())
    else:
        with pytest.raises(PlacementError, match=f"node a .*{PROJECT}"):
            require_shared(())


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "http://10.0.0.1:8265"])
def test_ray_client_is_refused_with_the_command_that_works(address: str) -> None:
    problem = address_problem(address)
    assert problem is not None
    assert all(text in problem for text in [f"--address {address}", "ray job submit --address http://HOST:8265"])
