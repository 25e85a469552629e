"""Generate the reference of the site from the commands, the settings, the registries and the columns.

A hook of mkdocs: README.md becomes the first page of the site, and each build generates the pages under reference/.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from search_spaces.common.fields import Field
from sweeper.cli.main import main
from sweeper.settings.fields import fields_of
from sweeper.settings.options import COMMANDS
from sweeper.store.columns import CANDIDATE_COLUMNS, HISTORY_COLUMNS, TRIAL_COLUMNS, column_dictionary
from trainables.spec import FIELDS

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> dict[str, str]:
    """Return the generated pages by their path below docs/."""
    listed = {kind: f"reference/{kind}.md" for kind in ("methods", "metrics", "models", "datasets")}
    return {
        "index.md": first_page((ROOT / "README.md").read_text(encoding="utf-8")),
        "reference/commands.md": "\n".join(["# Commands", "", *_commands()]),
        "reference/settings.md": "\n".join(["# Settings", "", *_settings()]),
        "reference/columns.md": "\n".join(["# Columns", "", *_columns()]),
        **{path: "\n".join([f"# All {kind}", "", *_listing(kind)]) for kind, path in listed.items()},
    }


def first_page(readme: str) -> str:
    """Return README.md with links relative to docs/. Links to files outside the site become plain text."""
    inside = re.sub(r"\]\(docs/", "](", readme)
    return re.sub(r"\[([^]]+)\]\((LICENSE|CONTRIBUTING\.md|CHANGELOG\.md)\)", r"\1", inside)


def _commands() -> Iterator[str]:
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"python -m sweeper {name}", max_content_width=100)
        yield from (f"## {name}", "", "```text", command.get_help(context), "```", "")


def _settings() -> Iterator[str]:
    yield from (
        "## A trial",
        "",
        "Each setting is an option, a key in a space or config file, a column of `trials.csv`,",
    )
    yield from ("and a parameter in MLflow.", "")
    yield from ("| setting | option | default | meaning | part of the hash |", "|---|---|---|---|---|")
    for name, field in FIELDS.items():
        flag = field.flag or f"--{name.replace('_', '-')}"
        cells = [f"`{name}`", f"`{flag}`", _cell(field.otherwise or field.default), _cell(field.help)]
        yield f"| {' | '.join(cells)} | {'yes' if field.decides else ''} |"
    yield from ("", "## A sweep and its commands", "", "| option | commands | default | meaning |", "|---|---|---|---|")
    commands_by_field: dict[Field, list[str]] = {}
    for command, options_type in COMMANDS.items():
        for field in fields_of(options_type).values():
            if field.scope != "trial":
                commands_by_field.setdefault(field, []).append(command)
    for field, commands in commands_by_field.items():
        cells = [f"`{field.flag}`", ", ".join(commands), _cell(field.otherwise or field.default)]
        yield f"| {' | '.join([*cells, _cell(field.help)])} |"


def _listing(kind: str) -> Iterator[str]:
    for row in json.loads(CliRunner().invoke(main, ["list", kind, "--json"]).stdout):
        yield from (f"## {row.pop('name')}", "")
        yield from (f"- **{key}**: {_cell(value)}" for key, value in row.items() if value not in ("", [], None))
        yield ""


def _columns() -> Iterator[str]:
    meaning: Mapping[str, Mapping[str, Any]] = column_dictionary(random_guess=math.log(2048), unit="token")
    tables = {"trials.csv": TRIAL_COLUMNS, "history.csv": HISTORY_COLUMNS, "candidates.csv": CANDIDATE_COLUMNS}
    for table, columns in tables.items():
        yield from (f"## {table}", "", "| column | meaning | unit | better |", "|---|---|---|---|")
        for name in columns:
            found = meaning.get(name, {})
            cells = (f"`{name}`", *(_cell(found.get(key)) for key in ("label", "unit", "direction")))
            yield f"| {' | '.join(cells)} |"
        yield ""


def _cell(value: object) -> str:
    """Return the value as text, with the characters escaped that Markdown would interpret."""
    text = "" if value is None else str(value)
    return re.sub(r"([|*_<>\[\]])", r"\\\1", text).replace("\n", " ")
