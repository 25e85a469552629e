"""The command ``ask``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.common.messages import printable
from search_spaces.common.values import json_text
from sweeper.cli.errors import say
from sweeper.cli.options import command, json_option
from sweeper.settings.options import AskOptions
from sweeper.settings.sources import Raw

if TYPE_CHECKING:
    from sweeper.asking import Answered, Panel

_TRUE_ANSWER = "true answer"


@command(
    AskOptions,
    click.argument("folder", type=click.Path()),
    click.argument("questions", nargs=-1, metavar="[QUESTION]..."),
    json_option("Print the answers as JSON on stdout."),
)
def ask(raw: Raw, problems: list[str], *, folder: str, questions: tuple[str, ...], as_json: bool) -> None:
    """Ask the target and the recommended model of the sweep in FOLDER the same questions.

    FOLDER can also be the folder of a single run ('unlearn --out'). If a question is in the data, its true answer is
    shown, too. Without QUESTION, the command reads questions from the terminal until Ctrl-D, or from stdin, one per
    line. The prompt and the length of an answer are those of the metrics, and decoding is greedy.
    """
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(folder))  # before any registry is read

    from sweeper.asking import open_panel
    from sweeper.console import own_console

    is_prompted = not questions and sys.stdin.isatty()
    if not questions and (as_json or not is_prompted):
        questions = tuple(line for line in map(str.strip, sys.stdin) if line)
    panel = open_panel(Path(folder), raw, questions, console=own_console())
    if is_prompted and not as_json:
        _converse(panel)
        return
    answered = panel.ask(questions) if questions else []
    if as_json:
        click.echo(json_text(panel.to_dict(answered)))
        return
    click.echo("\n\n".join("\n".join(_lines(item)) for item in answered))


def _converse(panel: Panel) -> None:
    """Answer the questions that a user types, until Ctrl-D, Ctrl-C or the end of the terminal."""
    from trainables.data import DataError

    say(f"{' and '.join(panel.checkpoints)} answer your questions; end with Ctrl-D")
    try:
        while True:
            if question := input("> ").strip():
                try:
                    (answered,) = panel.ask([question])
                except DataError as error:
                    say(f"error: {error}")
                else:
                    click.echo("\n".join(_lines(answered)[1:]))
    except (EOFError, KeyboardInterrupt):
        click.echo()


def _lines(item: Answered) -> list[str]:
    """Return the question and, below it, the true answer and the answer of each model, aligned.

    If the question differs from that of the data, for example in case, the latter is also shown, because small models
    answer it differently.
    """
    answers = dict(item.answers)
    if item.known is not None:
        answers = {f"{_TRUE_ANSWER} ({item.known.set_name})": item.known.answer, **answers}
        if item.known.question != item.question:
            answers = {"in the data": item.known.question, **answers}
    width = max(map(len, answers))
    return [printable(item.question), *(f"  {name:<{width}}  {_one_line(text)}" for name, text in answers.items())]


def _one_line(text: str) -> str:
    return printable(" ".join(text.split())) or "(empty)"
