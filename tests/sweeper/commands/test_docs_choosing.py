"""docs/choosing.md: its commands are run, in their order, but for those that say what they need."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from tests.sweeper.commands.conftest import invoke
from trainables.data import load_data
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for

PAGE = (Path(__file__).parents[3] / "docs" / "choosing.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
RUN = [line for line in LINES if "# needs " not in line]


def test_the_commands_of_the_page_do_what_it_says(golden: Path) -> None:
    sweep = Path("runs/SWEEP")
    shutil.copytree(golden, sweep)
    tokenizer = tokenizer_for("tiny-phi", load_data("authors", limit=20).full)
    save_model(make_tiny("tiny-phi", tokenizer), tokenizer, Path("one"))
    for row in (golden / "trials.csv").read_text().splitlines()[1:]:
        shutil.copytree("one", sweep / "checkpoints" / row.split(",")[0])
    assert len(RUN) == 9
    for line in RUN:
        python, flag, module, *arguments = shlex.split(line)
        assert (python, flag, module) == ("python", "-m", "sweeper")
        result = invoke(*arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"
    for folder in ("copy", "model", "merged"):
        assert AutoModelForCausalLM.from_pretrained(folder).config.model_type == "phi"
    assert "license: unknown" in Path("model/README.md").read_text()


@pytest.mark.parametrize("line", sorted(set(LINES) - set(RUN)))
def test_the_others_are_commands_with_options_that_there_are(line: str) -> None:
    command, _, needs = line.partition("# needs ")
    arguments = shlex.split(command)[3:]
    assert needs
    options = {argument for argument in arguments if argument.startswith("--")}
    assert options <= set(invoke(arguments[0], "--help").stdout.replace(",", " ").replace("/", " ").split())
