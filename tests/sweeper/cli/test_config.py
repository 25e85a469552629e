"""``--config FILE`` and ``config DIR``: a command's options in a file, and the file that reproduces a sweep."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import yaml

from sweeper.cli.folder import config_text
from sweeper.cli.main import EXAMPLES, main
from sweeper.settings.options import ParetoOptions
from sweeper.settings.sources import from_yaml
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import begin, read_settings
from tests.sweeper.cli.conftest import invoke, resolved


def settings_of(*words: str) -> SweepSettings:
    found = resolved("pareto", *words).settings
    assert found is not None
    return found


def test_a_file_may_be_empty_and_the_file_in_the_docs_has_no_unknown_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "config.md").read_text(encoding="utf-8")
    Path("page.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)[0])
    Path("empty.yaml").write_text("# nothing yet\ntime-budget:\n")
    assert from_yaml(ParetoOptions, Path("empty.yaml")) == ({}, [])
    raw, problems = from_yaml(ParetoOptions, Path("page.yaml"))
    assert problems == []
    assert (raw["trials"][0].value, raw["metrics"][0].value) == ("64", "default,worst_answer")
    assert [one.value for one in raw["option"]] == ["beta=0.1", "beta=0.2"]


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
    moved = replace(settings, address="10.0.0.1:6379", no_ship=True, storage=None)
    found = yaml.safe_load(config_text(moved, plugins={"toy.py": "/x/toy.py"}))
    assert (found["address"], found["no-ship"], "storage" in found) == ("10.0.0.1:6379", True, False)
    assert found["plugin"] == ["/x/toy.py"]


def test_the_name_of_a_sweep_has_the_methods_of_its_space_file() -> None:
    Path("mine.yaml").write_text("method: npo+ngdiff\nlr: [1e-4]\n")
    assert settings_of("--space", "mine.yaml").name == "pareto-npo_ngdiff-tiny-phi-authors"


def test_no_password_is_stored_and_config_prints_the_file_that_it_wrote() -> None:
    begin(settings_of("--tracking-uri", "http://me:hidden@host/"), Path("begun"))
    text = Path("begun/sweep.json").read_text()
    assert "hidden" not in text
    assert json.loads(text)["plugins"] == []
    assert invoke("config", "begun", "--out", "new.yaml").output == "new.yaml\n"


def test_every_command_has_an_example_in_its_help_that_is_accepted() -> None:
    assert set(EXAMPLES) == set(main.commands)
    for name, lines in EXAMPLES.items():
        shown = invoke(name, "--help").output
        for line in lines:
            assert f"  python -m sweeper {line}\n" in shown
            command, *words = shlex.split(line)
            main.commands[command].make_context(command, words)
