"""docs/choosing.md: its commands are run, in their order, except those that say what they need."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from transformers import AutoModelForCausalLM

from tests.sweeper.cli.conftest import invoke

PAGE = (Path(__file__).parents[3] / "docs" / "choosing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCKS for line in block.splitlines()]


def test_the_commands_of_the_page_do_what_it_says(golden: Path, tiny_phi: Path) -> None:
    sweep = Path("runs/SWEEP")
    shutil.copytree(golden, sweep)
    for row in (golden / "trials.csv").read_text().splitlines()[1:]:
        shutil.copytree(tiny_phi, sweep / "checkpoints" / row.split(",")[0])
    run = [line for line in LINES if "# needs " not in line]
    assert len(run) == 9
    for line in run:
        python, flag, module, *arguments = shlex.split(line)
        assert (python, flag, module) == ("python", "-m", "sweeper")
        result = invoke(*arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"
    for folder in ("copy", "model", "merged"):
        assert AutoModelForCausalLM.from_pretrained(folder).config.model_type == "phi"
    assert "license: unknown" in Path("model/README.md").read_text()


def test_the_other_commands_have_options_that_exist() -> None:
    for line in LINES:
        command, marked, needs = line.partition("# needs ")
        if marked:
            name, *arguments = shlex.split(command)[3:]
            assert needs
            shown = invoke(name, "--help").stdout.replace(",", " ").replace("/", " ").split()
            assert {word for word in arguments if word.startswith("--")} <= set(shown), line
