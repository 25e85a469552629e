"""A sweep on a growing cluster: one trial fits on the head node, and Ray's autoscaler adds a node for a second trial.

Ray's fake cloud provider starts the nodes as processes on this machine.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli
from tests.e2e.nodes import terminal

pytestmark = [pytest.mark.cluster, pytest.mark.ray]


HEAD_ID = "f" * 51 + "00000"
PORT = 6379
"""The port at which nodes of the fake provider look for their head. It cannot be changed."""
CONFIG = """
cluster_name: growing
max_workers: 1
upscaling_speed: 1.0
idle_timeout_minutes: 0.1
docker: {}
provider:
  {type: fake_multinode, use_node_id_as_ip: true, disable_node_updaters: true, disable_launch_config_check: true}
auth: {ssh_user: nobody}
head_node_type: ray.head.default
available_node_types:
  ray.head.default: {resources: {CPU: 1}, node_config: {}, max_workers: 0}
  worker: {resources: {CPU: 1}, node_config: {}, min_workers: 0, max_workers: 1}
file_mounts: {}
cluster_synced_files: []
file_mounts_sync_continuously: false
rsync_exclude: []
rsync_filter: []
initialization_commands: []
setup_commands: []
head_setup_commands: []
worker_setup_commands: []
head_start_ray_commands: []
worker_start_ray_commands: []
"""


def is_taken(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(is_taken(PORT), reason=f"port {PORT}, which Ray's fake cloud provider requires, is in use")
def test_a_second_trial_makes_the_cluster_grow_and_runs_on_the_new_node(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CONFIG)
    environment = {**cli.environment, "RAY_AUTH_MODE": "disabled", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    environment |= {"RAY_FAKE_CLUSTER": "1", "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID}
    head = f"ray start --head --port={PORT} --num-cpus=1 --include-dashboard=false --block"
    typed = f"{head} --autoscaling-config={tmp_path}/cluster.yaml"
    sweep = cli.new("growing")
    with terminal(typed, environment, tmp_path):
        trials = ("--trials", "6", "--epochs", "60", "--scheduler", "none", "--max-concurrent", "2")
        cli.run(*cli.pareto(sweep, *trials, "--address", f"127.0.0.1:{PORT}"))

    assert len(sweep.ids("finished")) == 6
    spans = [(float(row["started_at"]), float(row["ended_at"]), row["worker"]) for row in sweep.trials]
    assert len({worker for *_, worker in spans}) == 2
    assert any(
        begin < other_end and other_begin < end and worker != other
        for begin, end, worker in spans
        for other_begin, other_end, other in spans
    ), "two trials ran at the same time, on different nodes"
