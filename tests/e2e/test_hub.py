"""The exact command of the paper's setup, with a local server that replaces the hub."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import LocalHub
from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]


def tofu_repository(data: Path) -> dict[str, bytes]:
    """Return the files of locuslab/TOFU for its default forget10, with the rows of the small problem."""
    files = {
        path.name.replace("01", "10").replace("99", "90"): path.read_bytes() for path in sorted(data.glob("*.json"))
    }
    files["full.json"] = files["retain90.json"] + files["forget10.json"]
    configurations = "".join(f"- config_name: {name.removesuffix('.json')}\n  data_files: {name}\n" for name in files)
    return {**files, "README.md": f"---\nlicense: mit\nconfigs:\n{configurations}---\n# TOFU\n".encode()}


def test_the_papers_command_runs_against_the_hub_to_its_report(
    cli: Cli, local_hub: LocalHub, data: Path, target: Path, tmp_path: Path
) -> None:
    """python -m sweeper pareto --method gdiff --model phi-1.5: all defaults, 32 trials of at most 15 epochs."""
    from transformers import AutoModelForCausalLM

    local_hub.add("models", "microsoft/phi-1_5", {path.name: path.read_bytes() for path in target.iterdir()})
    local_hub.add("datasets", "locuslab/TOFU", tofu_repository(data))
    environment = {**cli.environment, "HF_ENDPOINT": local_hub.address, "HF_HOME": str(tmp_path / "hf")}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    environment.pop("HF_HUB_OFFLINE")
    done = replace(cli, folder=tmp_path, environment=environment).run(
        "pareto", "--method", "gdiff", "--model", "phi-1.5"
    )

    (counts,) = re.findall(r"32 trials: (.*)", done.stdout)
    assert {status for number, status in re.findall(r"(\d+) (\w+)", counts) if number != "0"} == {"finished", "stopped"}
    (out,) = (tmp_path / "runs").iterdir()
    assert (out / "report.html").is_file()
    described = json.loads((out / "sweep.json").read_text())["settings"]["base"]
    expected = {"model": "phi-1.5", "dataset": "tofu", "epochs": 15, "batch_size": 32, "lora_rank": None}
    assert {name: described[name] for name in expected} == expected
    (made,) = (tmp_path / "cache" / "sweeper" / "targets").glob("*/target.json")
    made_of = json.loads(made.read_text())
    assert made_of["data"] == "tofu/forget10"
    assert made_of["base"].startswith("microsoft/phi-1_5@")
    assert (made_of["recipe"]["lr"], made_of["recipe"]["batch_size"], made_of["epochs"]) == (2e-5, 16, 25)
    front = json.loads((out / "pareto.json").read_text())["front"]
    assert front
    AutoModelForCausalLM.from_pretrained(out / front[0]["checkpoint"])
