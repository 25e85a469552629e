"""``--config FILE`` and ``config DIR``: a command's options in a file, and the file that reproduces a sweep."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sweeper.cli.folder import config_text
from sweeper.cli.main import EXAMPLES, main
from sweeper.settings.sources import from_yaml
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import begin, read_settings
from tests.sweeper.cli.conftest import invoke, refused, resolved

SWEEP = """
# a comment
method: [gdiff, npo+ngdiff]
lr: [1e-3, 3e-4]
auto-lr: both
option: {beta: [0.1, 0.2]}
trials: 5
epochs: 2
metrics: [verbmem, utility]
gradient_checkpointing: true
objectives: "verbmem:min,utility:max"
constraint:
  - utility>=70%
scheduler: none
time-budget:
"""


def settings_of(*words: str, command: str = "pareto") -> SweepSettings:
    found = resolved(command, *words).settings
    assert found is not None
    return found


def same(one: SweepSettings, other: SweepSettings) -> bool:
    """Return whether two sweeps have the same settings, apart from the record of the given options."""
    return replace(one, given={}) == replace(other, given={})


def test_the_file_in_the_docs_has_no_unknown_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "config.md").read_text(encoding="utf-8")
    Path("page.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)[0])
    raw, problems = from_yaml("pareto", Path("page.yaml"))
    assert problems == []
    assert (raw["trials"][0].value, raw["metrics"][0].value) == ("64", "default,worst_answer")


# The file of a sweep ---------------------------------------------------------------------------------------------

TYPED = {
    "sweep": ("pareto", "--trials 7 --config sweep.yaml --tracking-uri sqlite:///other.db --time-budget 60"),
    "nothing": ("pareto", "--config empty.yaml"),
    "grid": ("pareto", "--method ngdiff --lr 1e-4 --lr 1e-3"),
    "study": ("lr-study", "--method ngdiff --seeds 3 --auto-lr-probe same --extend"),
}


@pytest.mark.parametrize(("command", "typed"), TYPED.values(), ids=TYPED)
def test_a_sweep_is_reproduced_by_its_recorded_command_and_by_the_file_that_config_writes(
    command: str, typed: str
) -> None:
    Path("sweep.yaml").write_text(SWEEP)
    Path("empty.yaml").write_text("# nothing yet\n")
    settings = settings_of(*typed.split(), command=command)
    begin(settings, Path("begun"))
    Path("again.yaml").write_text(config_text(read_settings(Path("begun")), plugins={}))
    assert same(settings_of("--config", "again.yaml", command=command), settings)
    assert same(settings_of(*shlex.split(settings.command)[4:], command=command), settings)


def test_the_file_has_what_a_resume_changed_and_absolute_places() -> None:
    here = Path.cwd()
    Path("mine.yaml").write_text("method: gdiff\n")
    typed = ("--space", "mine.yaml", "--storage", "states", "--tracking-uri", "sqlite:///here.db", "--trials", "4")
    begin(replace(settings_of(*typed), trials=9, until="plateau:5:0.01"), Path("begun"))
    settings = read_settings(Path("begun"))
    found = yaml.safe_load(config_text(settings, plugins={}))
    expected = {"trials": 9, "until": "plateau:5:0.01", "space": f"{here}/mine.yaml", "storage": f"{here}/states"}
    assert {name: found[name] for name in expected} == expected
    assert found["tracking-uri"].endswith(f"{here}/here.db")
    assert not {"address", "ship", "no-ship"} & set(found)
    moved = replace(settings, address="10.0.0.1:6379", ship=False, storage=None)
    found = yaml.safe_load(config_text(moved, plugins={"toy.py": "/x/toy.py"}))
    assert (found["address"], found["no-ship"], "storage" in found) == ("10.0.0.1:6379", True, False)
    assert found["plugin"] == ["/x/toy.py"]


def test_no_password_is_stored_and_config_prints_the_file_that_it_wrote() -> None:
    begin(settings_of("--tracking-uri", "http://me:hidden@host/"), Path("begun"))
    text = Path("begun/sweep.json").read_text()
    assert "hidden" not in text
    assert json.loads(text)["plugins"] == []
    assert invoke("config", "begun", "--out", "new.yaml").output == "new.yaml\n"
    content = json.loads(text)
    del content["settings"]["given"]
    Path("begun/sweep.json").write_text(json.dumps(content))
    assert "'command' in sweep.json" in refused("config", "begun")[0], "an older version recorded no options"


# Help ------------------------------------------------------------------------------------------------------------


def test_every_command_has_an_example_in_its_help_that_is_accepted() -> None:
    assert set(EXAMPLES) == set(main.commands)
    for name, lines in EXAMPLES.items():
        shown = invoke(name, "--help").output
        for line in lines:
            assert f"  python -m sweeper {line}\n" in shown
            command, *words = shlex.split(line)
            main.commands[command].make_context(command, words)
