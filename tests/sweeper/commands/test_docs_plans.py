"""What a page says begins trials is planned as it is typed there: settings, space, data, model, placement and disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.pages import OF_THEIR_OWN, ROOT, PageCommand, run_by_all
from tests.sweeper.commands.conftest import invoke
from trainables.data import load_data
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for

COMMANDS = [command for command in run_by_all() if command.only_plans]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "small"
    tokenizer = tokenizer_for("tiny-phi", load_data("authors", limit=20).full)
    save_model(make_tiny("tiny-phi", tokenizer), tokenizer, folder)
    return folder


@pytest.fixture
def place(model: Path, data: Path) -> None:
    """In the working folder what the pages have names for: DIR is a model beside TOFU's files and one's own rows."""
    folder = Path("DIR")
    shutil.copytree(model, folder)
    shutil.copytree(data, folder, dirs_exist_ok=True)
    for name, other in (("forget10", "forget01"), ("retain90", "retain99"), ("holdout10", "holdout01")):
        shutil.copy(folder / f"{other}.json", folder / f"{name}.json")
    shutil.copy(folder / "forget01_perturbed.json", folder / "forget10_perturbed.json")
    for name in ("forget", "retain"):
        rows = [{"question": f"What of {name} {i}?", "answer": f"It is {name} {i}."} for i in range(12)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
