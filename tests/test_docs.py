"""The pages: every command on them is valid, and the site is built without a network."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from sweeper.cli.main import main
from sweeper.store.columns import TRIAL_COLUMNS
from tests.pages import ROOT, PageCommand, benchmarks, commands
from trainables.methods import method_names
from trainables.metrics.registry import METRICS
from trainables.spec import FIELDS


@pytest.mark.parametrize("typed", commands(), ids=str)
def test_a_command_on_a_page_can_be_typed(typed: PageCommand) -> None:
    name, *arguments = typed.words
    command = main.commands[name]
    try:
        command.make_context(f"sweeper {name}", arguments, resilient_parsing=False)
    except click.ClickException as error:
        pytest.fail(f"{typed}: {error.format_message()}")


def test_there_are_commands_on_the_pages() -> None:
    found = list(commands())
    assert len(found) > 60
    assert {"README.md", "start.md", "howto.md", "data.md"} <= {command.page for command in found}


@pytest.mark.parametrize("words", benchmarks(), ids=" ".join)
def test_a_benchmark_on_a_page_has_these_options(words: tuple[str, ...]) -> None:
    script = (ROOT / words[0]).read_text(encoding="utf-8")
    if "study_parser" in script:
        script += (ROOT / "benchmarks/study_rows.py").read_text(encoding="utf-8")
    own = itertools.takewhile(lambda word: word != "--", words)  # the words after "--" are for a command of sweeper
    assert not {word for word in own if word.startswith("--") and f'"{word}"' not in script}


def test_the_licence_of_every_dependency_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[\[><=~ ]", item)[0] for item in project["dependencies"]}
    rows = re.findall(r"^\| \w[^|]* \| ([a-z0-9, -]+) \|$", (ROOT / "docs/licences.md").read_text(), re.MULTILINE)
    listed = {name for names in rows[1:] for name in names.split(", ")}
    assert listed == needed


def test_the_site_is_built_without_a_network_and_has_every_part(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is a development dependency")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ROOT / "docs/site/mkdocs.yml", "-d", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    parts = {"commands": main.commands, "settings": FIELDS, "methods": method_names(), "metrics": METRICS}
    for page, names in (parts | {"columns": TRIAL_COLUMNS}).items():
        text = (tmp_path / "reference" / f"{page}.html").read_text(encoding="utf-8")
        assert [name for name in names if name not in text] == [], page
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:link|img|script|iframe)[^>]+(?:href|src)="(https?:[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert not [address for address in loaded if not address.startswith("https://arxiv.org")], page
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "images/pareto.png" in home
    assert (tmp_path / "images" / "pareto.png").is_file()
