"""The commands of the pages that start trials have a valid plan: settings, data, model, placement and disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.pages import OF_THEIR_OWN, ROOT, PageCommand, run_by_all
from tests.sweeper.cli.conftest import invoke
from tests.sweeper.conftest import write_questions

COMMANDS = [command for command in run_by_all() if command.only_plans]


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
    for name in ("mine", "TOFU", "TARGET", "SMOLLM2"):
        Path(name).symlink_to(folder)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_page_s_command_has_a_plan(command: PageCommand) -> None:
    more = [option for option in ("--dry-run", "--json") if option not in command.words]
    result = invoke(*command.words, *more)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["trials"] > 0


def test_most_of_them_are_here_and_other_pages_have_their_tests() -> None:
    assert len(COMMANDS) > 25
    assert {"README.md", "start.md", "howto.md", "data.md", "vision.md"} <= {command.page for command in COMMANDS}
    for page, test in OF_THEIR_OWN.items():
        assert page in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not read {page}"
