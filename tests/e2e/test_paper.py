"""Each command of docs/paper.md runs at tiny scale. One sweep has the data of Table 1 and of most figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import WriteMuse
from tests.e2e.conftest import Cli
from tests.pages import BEGIN, PageCommand
from tests.paper_page import COMMANDS, TinyScale

pytestmark = [pytest.mark.slow, pytest.mark.ray]

FEW = ("--epochs", "2", "--batch-size", "5", "--gpus-per-trial", "0")
UPDATES = ("--auto-lr-start", "1", "--auto-lr-every", "2")


def options(command: PageCommand) -> tuple[str, ...]:
    """Return the options that make a command short. Only the sweep of Table 1 has all of its configurations."""
    if "--dry-run" in command.words or command.words[0] not in BEGIN:
        return ()
    if command.words[0] == "unlearn":
        return ("--epochs", "2", "--batch-size", "5", *UPDATES)
    rates = () if "--lr" in command.words else ("--lr", "0.05", "--lr", "0.1")
    if "runs/paper-phi" in command.words:
        return (*FEW, *UPDATES, "--optimizer", "sgd", *rates)
    return (*FEW, *rates, "--trials", "2")


def test_the_commands_of_the_page_run(
    cli: Cli, data: Path, target: Path, write_muse: WriteMuse, tmp_path: Path
) -> None:
    runs = cli.folder / "runs"
    for command in COMMANDS:
        model = command.words[command.words.index("--model") + 1] if "--model" in command.words else "small"
        (named := tmp_path / model).exists() or named.symlink_to(target)
        words = TinyScale(named, data, write_muse()).words(command)
        cli.run(*words, *options(command))
    with (runs / "paper-tables" / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {(row["method"], row["options"], row["auto_lr"]) for row in rows if row["method"] != "target"}
    methods = [
        ("ga", ""),
        *(("gdiff", f"c={c}") for c in (0.1, 0.5, 0.9)),
        ("npo", ""),
        ("lossnorm", ""),
        ("ngdiff", ""),
    ]
    assert names == {(*method, rule) for method in methods for rule in ("off", "on")}
    assert {row["metric"] for row in rows} >= {"verbmem", "utility", "truth_ratio"}
    settings = json.loads((runs / "paper-phi" / "sweep.json").read_text())["settings"]
    assert (settings["sampler"], settings["scheduler"], settings["candidates"]) == ("grid", "none", "last")
    figures = {path.stem for path in (runs / "paper-phi" / "figures").glob("*.svg")}
    assert figures >= {
        *("trade_off_over_options", "gradient_plane", "metrics_over_steps", "learning_rate_sensitivity"),
        *("auto_lr_ablation", "auto_lr_log", "gradients_over_steps"),
    }
    assert (runs / "paper-landscape" / "figures" / "loss_landscape.svg").is_file()
