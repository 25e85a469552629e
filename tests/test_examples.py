"""The files in docs/examples can be parsed, and the commands in them have valid options."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from sweeper.cli.main import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
SLURM = EXAMPLES / "slurm.sbatch"


def commands_in(text: str) -> list[dict[str, Any]]:
    """Return the parsed options of this project's commands, with the name of the command."""
    found = []
    for words in re.findall(r"python -m sweeper ((?:(?! \|\| | Change:| &\n)[^\0])+)", text):
        name, *arguments = shlex.split(words)
        found.append(main.commands[name].make_context(name, arguments).params | {"command": name})
    return found


def test_the_slurm_script_is_valid_and_resumes_its_sweep_on_its_cluster() -> None:
    subprocess.run(["bash", "-n", SLURM], check=True)
    lines = SLURM.read_text(encoding="utf-8").splitlines(keepends=True)
    script = "".join(line for line in lines if not line.startswith("#")).replace('"$@"', "--method gdiff --trials 64")
    again, first = commands_in(script)
    assert (again["command"], first["command"], again["folder"]) == ("resume", "pareto", first["out"])
    assert again["address"] == first["address"] == "$address"
    with pytest.raises(click.NoSuchOption):
        commands_in(script.replace("--trials", "--no-such-option"))


@pytest.mark.parametrize(("name", "commands"), [("job", ["resume", "pareto"]), ("cluster", ["pareto"])])
def test_a_kuberay_manifest_is_valid_and_its_commands_join_the_cluster(name: str, commands: list[str]) -> None:
    text = (EXAMPLES / f"kuberay-{name}.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text)["spec"]
    comments = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    found = commands_in(spec.get("entrypoint") or comments)
    assert [item["command"] for item in found] == commands
    assert {item["address"] for item in found} == {"auto"}
    cluster = spec.get("rayClusterSpec", spec)
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
