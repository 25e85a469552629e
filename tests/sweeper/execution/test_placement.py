"""The number of trials that fit, and the errors if no trial fits or nodes differ. Ray is replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import ray

from sweeper.execution.cluster import RAY_ENVIRONMENT, ray_cluster
from sweeper.execution.nodes import PROJECT, versions
from sweeper.execution.placement import PlacementError, require_shared, slots
from sweeper.settings.resources import Resources
from tests.facts import assert_names

Node = dict[str, Any]
HERE, SHIPPED = versions(), versions() | {PROJECT: None}


def node(*, cpus: float = 8, gpus: float = 0, alive: bool = True) -> Node:
    """Return a node as in ``ray.nodes()``, which omits resources with amount 0."""
    resources = {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount}
    return {"Alive": alive, "Resources": resources, "NodeID": "n", "NodeManagerHostname": "host"}


@pytest.mark.parametrize(
    ("resources", "nodes", "fit"),
    [
        ((0.1, 0), [node(cpus=2)], 20),  # without rounding errors
        ((2, 0), [node(cpus=3), node(cpus=5)], 3),
        ((1, 0.6), [node(cpus=8, gpus=4)], 4),  # a share is not split over two GPUs
        ((1, 2), [node(cpus=8, gpus=3), node(cpus=8, gpus=1)], 1),  # nor are GPUs combined across nodes
        ((3, 0.25), [node(cpus=8, gpus=2)], 2),  # CPUs run out before GPUs
    ],
)
def test_the_number_of_trials_that_fit(resources: tuple[float, float], nodes: list[Node], fit: int) -> None:
    assert slots(nodes, Resources(*resources)) == fit


@pytest.mark.parametrize(
    ("resources", "nodes", "named"),
    [
        ((1, 0.25), [node(cpus=8)], ["1 CPUs", "0.25 GPUs", "8 CPUs", "0 GPUs", "--gpus-per-trial"]),
        ((4, 1), [node(cpus=8), node(cpus=2, gpus=4)], ["2 CPUs", "4 GPUs"]),
    ],
)
def test_if_no_trial_fits_the_error_has_the_required_and_the_available_resources(
    resources: tuple[float, float], nodes: list[Node], named: list[str]
) -> None:
    with pytest.raises(PlacementError) as caught:
        slots(nodes, Resources(*resources))
    assert_names(caught.value, *named)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Replace Ray, and let the test change environment variables."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    found = Mock()
    for name in ("init", "nodes", "shutdown"):
        monkeypatch.setattr(ray, name, getattr(found, name))
    return found


def join(address: str | None = None) -> int:
    with ray_cluster(address, resources=Resources(1, 0)) as found:
        return found


def test_ray_is_started_without_an_address_and_joined_at_an_address(stub: Mock) -> None:
    for name in RAY_ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "7"
    stub.nodes.return_value = [node(cpus=4), node(cpus=4, alive=False)]
    assert [join(), join("10.0.0.1:6379")] == [4, 4], "a dead node does not count"
    with pytest.raises(KeyboardInterrupt), ray_cluster(None, resources=Resources(1, 0)):
        raise KeyboardInterrupt
    assert [call.kwargs["address"] for call in stub.init.mock_calls] == ["local", "10.0.0.1:6379", "local"]
    assert stub.shutdown.call_count == 3, "Ray is shut down even if the sweep fails"
    assert os.environ["TUNE_GLOBAL_CHECKPOINT_S"] == "7", "a variable that the user has set is kept"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize(
    ("error", "address"), [(ConnectionError("no shared memory\nand a long story"), None), (OSError(), "10.0.0.1:6379")]
)
def test_an_error_of_ray_is_reported_with_the_address(stub: Mock, error: Exception, address: str | None) -> None:
    stub.init.side_effect = error
    with pytest.raises(PlacementError) as caught:
        join(address)
    assert_names(caught.value, str(error).partition("\n")[0] or "OSError", address or "this machine")
    assert "None" not in str(caught.value)


GOOD = ([], HERE)


@pytest.mark.parametrize(
    ("is_shipped", "patience", "answers", "named"),
    [
        # Ray lists a dead node until it notices the death.
        (False, 60.0, [{"a": GOOD, "b": None}, {"a": GOOD, "b": None}, {"a": GOOD}], ""),
        (False, -1.0, [{"a": GOOD, "b": None}], r"node b "),
        (False, 60.0, [{"a": GOOD, "b": (["/shared"], HERE)}], r"node b .* /shared"),
        (False, 60.0, [{"a": GOOD, "b": ([], HERE | {"torch": "1.0", "peft": None})}], r"node b .*torch 1\.0.*peft"),
        (False, 60.0, [{"a": ([], SHIPPED), "b": GOOD}], f"node a .*{PROJECT}"),
        (True, 60.0, [{"a": ([], SHIPPED), "b": ([], SHIPPED)}], ""),
        (True, 60.0, [{"a": GOOD, "b": ([], SHIPPED | {"torch": "1.0"})}], r"node b .*torch 1\.0"),
    ],
    ids=["dead", "silent", "unseen folder", "versions", "project missing", "project shipped", "torch of shipped"],
)
def test_a_node_that_does_not_respond_or_differs_is_reported(
    monkeypatch: pytest.MonkeyPatch, is_shipped: bool, patience: float, answers: list[Any], named: str
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [node(), node()])
    placement = "sweeper.execution.placement"
    monkeypatch.setattr(f"{placement}.ask_nodes", lambda question, *paths, nodes: answers.pop(0))
    monkeypatch.setattr(f"{placement}.is_shipped", lambda: is_shipped)
    monkeypatch.setattr(f"{placement}.time.sleep", lambda seconds: None)
    monkeypatch.setattr(f"{placement}._DEAD_NODE_SECONDS", patience)
    if named:
        with pytest.raises(PlacementError, match=named):
            require_shared((Path("/shared"),))
    else:
        require_shared((Path("/shared"),))
    assert answers == []


def test_the_folders_of_a_single_node_are_not_checked(stub: Mock) -> None:
    stub.nodes.return_value = [node()]
    require_shared((Path("/nowhere"),))
