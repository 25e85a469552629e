"""The commands of the pages: those that start trials have a valid plan, and those of choosing.md are run."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from sweeper.cli.main import main
from tests.conftest import WriteMuse
from tests.pages import OF_THEIR_OWN, ROOT, PageCommand, commands, run_by_all
from tests.paper_page import COMMANDS as PAPER_COMMANDS
from tests.paper_page import TinyScale
from tests.sweeper.cli.conftest import invoke
from tests.sweeper.conftest import write_questions

PLANS = [command for command in run_by_all() if command.only_plans]
CHOOSING = [command for command in commands() if command.page == "choosing.md"]


@pytest.fixture
def place(tiny_phi: Path, data: Path) -> None:
    """Put the files that the pages name into the working folder: DIR holds a model, TOFU's files and jsonl files."""
    folder = Path("DIR")
    shutil.copytree(tiny_phi, folder)
    shutil.copytree(data, folder, dirs_exist_ok=True)
    for name, other in (("forget10", "forget01"), ("retain90", "retain99"), ("holdout10", "holdout01")):
        shutil.copy(folder / f"{other}.json", folder / f"{name}.json")
    shutil.copy(folder / "forget01_perturbed.json", folder / "forget10_perturbed.json")
    write_questions(folder, count=12)
    for name in ("mine", "TOFU", "TARGET", "MODEL", "RETAIN", "SMOLLM2"):
        Path(name).symlink_to(folder)
    page = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8")
    _, _, space = page.partition("# space.yaml\n")
    Path("space.yaml").write_text(textwrap.dedent(space.partition("\n\n")[0]))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", PLANS, ids=str)
def test_a_page_s_command_has_a_plan(command: PageCommand) -> None:
    more = [option for option in ("--dry-run", "--json") if option not in command.words]
    result = invoke(*command.words, *more)
    assert result.exit_code == 0, result.output
    count = "cells" if command.words[0] == "leaderboard" else "trials"
    assert json.loads(result.stdout)[count] > 0


@pytest.mark.usefixtures("place")
def test_the_papers_commands_have_a_plan_at_tiny_scale(write_muse: WriteMuse) -> None:
    """tests/e2e/test_paper.py runs them."""
    scale = TinyScale(Path("TARGET"), Path("TOFU"), write_muse())
    plans = [command for command in PAPER_COMMANDS if command.only_plans]
    assert len(plans) > 12
    for command in plans:
        more = [option for option in ("--dry-run", "--json") if option not in command.words]
        result = invoke(*scale.words(command), *more)
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_every_page_has_a_test() -> None:
    assert len(PLANS) > 25
    assert {"README.md", "start.md", "howto.md", "data.md", "vision.md"} <= {command.page for command in PLANS}
    for command in commands():
        if command.page == "running.md":
            name, *words = command.words
            main.commands[name].make_context(name, words)
    for page, test in OF_THEIR_OWN.items():
        assert page in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not read {page}"


def test_the_commands_of_choosing_do_what_the_page_says(golden: Path, tiny_phi: Path) -> None:
    sweep = Path("runs/SWEEP")
    shutil.copytree(golden, sweep)
    for row in (golden / "trials.csv").read_text().splitlines()[1:]:
        shutil.copytree(tiny_phi, sweep / "checkpoints" / row.split(",")[0])
    run = [command for command in CHOOSING if command.words[0] == "pick" and not command.needs]
    assert len(run) == 12
    for command in run:
        result = invoke(*command.words)
        assert result.exit_code == 0, f"{command}\n{result.output}"
    for folder in ("copy", "model", "merged"):
        assert AutoModelForCausalLM.from_pretrained(folder).config.model_type == "phi"
    assert "license: unknown" in Path("model/README.md").read_text()
