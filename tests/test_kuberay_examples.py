"""docs/examples/kuberay-*.yaml have valid commands, one shared volume claim, and workers for the concurrent trials."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeper.cli.main import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
MANIFESTS = ["kuberay-job.yaml", "kuberay-cluster.yaml"]


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def cluster_of(name: str) -> dict[str, Any]:
    spec = manifest(name)["spec"]
    return spec.get("rayClusterSpec", spec)


def pods_of(name: str) -> list[dict[str, Any]]:
    """Return the pod of the head node and the pods of the workers."""
    cluster = cluster_of(name)
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def commands_of(name: str) -> list[dict[str, Any]]:
    """Return the names and the parsed options of this project's commands in a file."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    comments = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    typed = manifest(name)["spec"].get("entrypoint") or comments
    found = []
    for words in re.findall(r"python -m sweeper ((?:(?! \|\| | Change:).)+)", typed):
        command, *arguments = shlex.split(words)
        found.append(main.commands[command].make_context(command, arguments).params | {"command": command})
    return found


@pytest.mark.parametrize(
    ("name", "kind", "commands"),
    [(MANIFESTS[0], "RayJob", ["resume", "pareto"]), (MANIFESTS[1], "RayCluster", ["pareto"])],
)
def test_its_commands_are_valid_and_join_the_cluster(name: str, kind: str, commands: list[str]) -> None:
    found = commands_of(name)
    assert (manifest(name)["apiVersion"], manifest(name)["kind"]) == ("ray.io/v1", kind)
    assert [item["command"] for item in found] == commands
    assert {item["address"] for item in found} == {"auto"}
    assert cluster_of(name) == cluster_of(MANIFESTS[0])


def test_a_restarted_job_resumes_the_same_sweep() -> None:
    spec = manifest(MANIFESTS[0])["spec"]
    again, first = commands_of(MANIFESTS[0])
    assert again["folder"] == first["out"]
    assert spec["entrypoint"].startswith(f"test -f {first['out']}/sweep.json && exec ")
    assert spec["backoffLimit"] > 0


@pytest.mark.parametrize("name", MANIFESTS)
def test_head_and_workers_mount_the_shared_folders_from_one_claim(name: str) -> None:
    shared = [item.get("out") or item["folder"] for item in commands_of(name)]
    for pod in pods_of(name):
        (container,) = pod["containers"]
        (claim,) = {item["persistentVolumeClaim"]["claimName"]: item["name"] for item in pod["volumes"]}.items()
        assert claim == ("sweeper", "shared")
        (mount,) = [item["mountPath"] for item in container["volumeMounts"] if item["name"] == "shared"]
        environment = {item["name"]: item["value"] for item in container["env"]}
        for path in (*shared, environment["XDG_CACHE_HOME"]):
            assert Path(path).is_relative_to(mount)
        assert environment["MLFLOW_TRACKING_URI"].startswith("http")


@pytest.mark.parametrize("name", MANIFESTS)
def test_workers_are_added_for_concurrent_trials_and_access_needs_a_token(name: str) -> None:
    cluster = cluster_of(name)
    assert cluster["authOptions"] == {"mode": "token"}
    assert {pod["containers"][0]["image"] for pod in pods_of(name)} == {"REGISTRY/sweeper:TAG"}
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    (group,) = cluster["workerGroupSpecs"]
    assert 1 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    (pod,) = pods_of(name)[1:]
    gpus = int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    asked = commands_of(name)[-1]
    assert int(asked["max_concurrent"]) == int(group["maxReplicas"] * gpus / float(asked["gpus_per_trial"]))
