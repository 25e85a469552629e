"""The commands of docs/cluster.md work on a cluster of two nodes on this machine.

The nodes have the packages that the project needs, but not the project, which the driver sends to them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from sweeper.store.version import PACKAGES
from tests.e2e.conftest import Cli
from tests.e2e.nodes import free_port, terminal

pytestmark = [pytest.mark.cluster, pytest.mark.ray]


PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def terminals() -> list[str]:
    """Return the commands of each terminal in the walk-through."""
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## Two nodes on one machine\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^\n((?: {4}.+\n)+)", section, flags=re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks]


def without_project(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a node whose Python cannot import this project."""
    for package in PACKAGES:
        (folder / "node" / package).mkdir(parents=True, exist_ok=True)
        (folder / "node" / package / "__init__.py").write_text(f"raise ImportError('{package} is not on this node')\n")
    return {**environment, "PYTHONPATH": str(folder / "node")}


def finished(command: list[str], environment: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    given = {"env": environment, "cwd": folder, "capture_output": True, "text": True, "timeout": 500}
    done = subprocess.run(command, **given, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_walk_through_of_two_nodes_runs(cli: Cli, tmp_path: Path) -> None:
    head, node, driver = terminals()
    port = free_port()
    problem = " ".join(cli.problem) + f" --tracking-uri {cli.tracking_uri} --json"
    here = {"6379": str(port), "/shared": str(tmp_path), "sweeper pareto": f"sweeper pareto {problem}"}

    def in_this_test(typed: str) -> str:
        for there, instead in here.items():
            typed = typed.replace(there, instead)
        return typed

    with ExitStack() as nodes:
        for typed in (head, node):
            nodes.enter_context(terminal(in_this_test(typed), without_project(cli.environment, tmp_path), tmp_path))
        done = finished(["bash", "-ec", in_this_test(driver)], cli.environment, tmp_path)
    assert len(re.findall(r"^node  .* 2? ?CPUs", done.stdout, flags=re.MULTILINE)) == 2
    assert '"status": {"finished": 4, "stopped": 0, "diverged": 0, "failed": 0}' in done.stdout
    assert re.search(r"^finished.*: .*/first$", done.stdout, flags=re.MULTILINE)
    assert "file package" not in done.stderr
    assert (tmp_path / "first" / "report.html").is_file()


@pytest.mark.skipif(find_spec("aiohttp_cors") is None, reason="needs ray[default], whose dashboard takes jobs")
def test_a_submitted_job_runs_a_sweep_on_its_cluster(cli: Cli, tmp_path: Path) -> None:
    port, dashboard = free_port(), free_port()
    environment = {**cli.environment, "RAY_AUTH_MODE": "disabled"}
    head = f"ray start --head --port={port} --dashboard-port={dashboard}"
    with terminal(f"{head} --num-cpus=2 --block", environment, tmp_path):
        trials = ("--trials", "2", "--epochs", "60", "--scheduler", "none")
        sweep = cli.pareto(cli.new("submitted"), *trials, "--address", "auto")
        words = ["ray", "job", "submit", "--address", f"http://127.0.0.1:{dashboard}", "--", "python", "-m", "sweeper"]
        finished([*words, *map(str, sweep)], environment, tmp_path)
    assert cli.new("submitted").ids("finished") == ["00000", "00001"]
