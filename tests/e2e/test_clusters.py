"""Sweeps on a running cluster with a GPU that exists only by name."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.product import MARK
from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.cluster, pytest.mark.ray]


CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=2, num_gpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
MEASURING = """
from trainables import device
from trainables.weightings.base import Needs, Weighting, Weights
device.peak_gpu_memory = lambda device: 10.0
device.total_gpu_memory = lambda device: 80.0
def weigh(losses, gramian, state, options):
    return Weights(0.5, 0.5), state
WEIGHTING = Weighting(name="half", formula="(1/2, 1/2)", needs=Needs.LOSSES, weigh=weigh, citation="none")
"""
JOIN = """
import sys
from pathlib import Path
import ray
from sweeper.settings.resources import Resources
from sweeper.execution.cluster import ray_cluster
from sweeper.execution.placement import PlacementError, require_shared
class Worker:
    def answer(self):
        return "a worker answers"
def join(gpus, folder):
    try:
        with ray_cluster(sys.argv[1], resources=Resources(cpus=1, gpus=gpus)) as slots:
            require_shared((Path(folder),))
            worker = ray.remote(num_cpus=1, num_gpus=gpus)(Worker).remote()
            said = f"{slots} at once, {ray.get(worker.answer.remote(), timeout=60)}"
    except PlacementError as error:
        said = error
    print(said)
    assert not ray.is_initialized()
for gpus in map(float, sys.argv[2:]):
    join(gpus, "/tmp")
join(0, "/nowhere/at/all")
"""


@contextmanager
def running_cluster(environment: dict[str, str]) -> Iterator[str]:
    """Start a cluster of two nodes on this machine, one of them with a GPU by name. Yield its address."""
    # Ray starts no node with a GPU if CUDA_VISIBLE_DEVICES is empty.
    visible = {name: value for name, value in environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    # Another mark, because the cluster outlives the commands that join it.
    process = subprocess.Popen([sys.executable, "-c", CLUSTER], env={**visible, MARK: "cluster"}, **pipes)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
        assert process.poll() is None, "a command that joined the cluster shut it down"
    finally:
        process.communicate(timeout=60)


@pytest.fixture
def with_token(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a Ray token, as Ray creates for the first cluster on a machine."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    return {**cli.environment, "RAY_AUTH_TOKEN_PATH": str(token)}


def join(address: str, environment: dict[str, str], *gpus: str) -> list[str]:
    """Join the cluster with these numbers of GPUs per trial, then with a missing folder. Return the messages."""
    command = [sys.executable, "-c", JOIN, address, *gpus]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_sweep_joins_a_running_cluster_and_shares_its_gpu(
    cli: Cli, with_token: dict[str, str], tmp_path: Path
) -> None:
    """The GPU exists only by name, so trials run on CPUs, and a plug-in reports their GPU memory."""
    environment = {**with_token, "RAY_AUTH_MODE": "token"}
    with running_cluster(environment) as address:
        on_cpus, on_the_gpu, on_two_gpus, unseen = join(address, environment, "0", "0.25", "2")
        assert on_cpus == "3 at once, a worker answers"
        assert on_the_gpu == "2 at once, a worker answers"
        assert "2 GPUs" in on_two_gpus
        assert "/nowhere/at/all" in unseen

        doctor = dataclasses.replace(cli, environment=environment)
        bucket = tmp_path / "bucket"
        asked = ("--address", address, "--shared", cli.folder, "--storage", bucket.as_uri())
        seen = doctor.run("doctor", *asked, "--json").json
        assert (len(seen["nodes"]), seen["faults"]) == (2, [])
        assert bucket.is_dir()
        assert not list(bucket.iterdir()), "the test files are deleted"
        assert all(list(node["free_gb"]) == [str(cli.folder)] for node in seen["nodes"].values())
        assert not list(cli.folder.glob(".doctor-*"))

        sweep = cli.new("joined")
        measuring = tmp_path / "measuring.py"
        measuring.write_text(MEASURING)
        given = ("--trials", "4", "--method", "half", "--epochs", "1", "--plugin", measuring)
        arguments = (*given, "--gpus-per-trial", "auto", "--address", address, "--json")
        done = dataclasses.replace(cli, environment=environment).run(*cli.pareto(sweep, *arguments))
        assert done.json["status"] == {"finished": 4, "stopped": 0, "diverged": 0, "failed": 0}
        assert [row["gpu_share"] for row in sweep.trials] == ["1.0", *["0.1666"] * 3]
        first, *later = [(float(row["started_at"]), float(row["ended_at"])) for row in sweep.trials]
        assert all(begin > first[1] for begin, _ in later), "the first trial had the GPU for itself"
        (learned,) = (line for line in done.stderr.splitlines() if "10.00 GB" in line)
        assert "80.0 GB" in learned
        assert "1/6 of a GPU" in learned


def test_a_token_file_is_not_sent_to_a_cluster_that_requires_no_token(with_token: dict[str, str]) -> None:
    """A cluster without tokens considers a driver in token mode dead, and cancels every worker."""
    with running_cluster({**with_token, "RAY_AUTH_MODE": "disabled"}) as address:
        assert join(address, with_token, "0")[0] == "3 at once, a worker answers"


def test_a_missing_token_is_an_error_within_a_minute(cli: Cli, with_token: dict[str, str]) -> None:
    with running_cluster({**with_token, "RAY_AUTH_MODE": "token"}) as address:
        begin = time.monotonic()
        refused = cli.run(*cli.pareto(cli.new("no-token"), "--trials", "1", "--address", address), code=2)
        assert time.monotonic() - begin < 60
        assert "InvalidAuthToken" in refused.stderr
        assert "RAY_AUTH_MODE=token" in refused.stderr.splitlines()[-1]


def test_a_target_is_prepared_on_the_node_with_the_gpu_in_a_shared_cache_or_through_a_bucket(
    cli: Cli, with_token: dict[str, str], tmp_path: Path
) -> None:
    environment = {**with_token, "RAY_AUTH_MODE": "token"}
    of_the_nodes = tmp_path / "node"
    *data, _, base = cli.problem
    given = ("--model-path", base, "--target-epochs", "2", "--trials", "1", "--epochs", "1", "--gpus-per-trial", "0.5")

    def sweep(name: str, cache: Path, address: str, *more: str) -> tuple[Any, str]:
        made = dataclasses.replace(cli, environment={**environment, "XDG_CACHE_HOME": str(cache)})
        folder = cli.new(name)
        words = ("pareto", *data, *given, "--address", address, "--out", folder.out, "--tracking-uri", cli.tracking_uri)
        return folder, made.run(*words, *more).stderr

    def weights(cache: Path) -> list[bytes]:
        return [path.read_bytes() for path in cache.glob("sweeper/targets/*/model.safetensors")]

    with running_cluster({**environment, "XDG_CACHE_HOME": str(of_the_nodes)}) as address:
        shared, said = sweep("target-shared", tmp_path / "shared", address)
        assert "preparing the target on a node" in said
        assert "fine-tuning the target small-phi on tofu" in said
        assert shared.ids("finished") == ["00000"]
        assert not of_the_nodes.exists()

        (tmp_path / "bucket").mkdir()
        storage = ("--storage", (tmp_path / "bucket").as_uri())
        fetched, said = sweep("target-bucket", tmp_path / "driver", address, *storage)
        assert "preparing the target on a node" in said
        assert fetched.ids("finished") == ["00000"]

        _, said = sweep("target-known", tmp_path / "driver", address, *storage)
        assert "preparing the target" not in said

    (made,) = weights(of_the_nodes)
    assert weights(tmp_path / "shared") == weights(tmp_path / "driver") == [made]
