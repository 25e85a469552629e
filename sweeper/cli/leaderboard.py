"""The command ``leaderboard``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.common.values import json_text
from sweeper.cli.errors import FAILED, INTERRUPTED, say
from sweeper.cli.options import CONFIG, DRY_RUN, command, json_option
from sweeper.settings.fields import fields_of
from sweeper.settings.options import LeaderboardOptions
from sweeper.settings.reading import located, read
from sweeper.settings.sources import Raw, command_line, raise_if_any

if TYPE_CHECKING:
    from sweeper.leaderboard import BoardPlan, CellJob

_WITH_FROM = ("cells", "out")
"""The only options that ``leaderboard --from`` accepts."""


@command(LeaderboardOptions, CONFIG, DRY_RUN, json_option("Print the leaderboard as JSON on stdout."))
def leaderboard(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Rank methods over problems and training seeds, each tuned with the same budget.

    A cell is a method, a problem and a training seed. The search of each cell has --epoch-budget epochs, like a
    sweep of 'pareto'. The configuration that it recommends is trained again on --confirm fresh training seeds. The
    folder OUT contains the sweeps, cells.csv with a row for each cell, and leaderboard.md, .csv and .json. If the
    command is interrupted, the same command runs the missing cells. Several processes can share OUT.
    """
    if "cells" in raw:
        _rank_stored(raw, problems, dry_run=dry_run, as_json=as_json)
        return
    from sweeper.checks.world import load_plugins

    load_plugins(raw, problems)  # before any registry is read
    from sweeper.leaderboard import checked_settings, plan_of_board, run_cells, update_board

    settings = checked_settings(raw, problems)
    out = Path(str(raw["out"][-1].value))
    if dry_run:
        _print_plan(plan_of_board(settings, out), as_json=as_json)
        return
    try:
        states: dict[CellJob, str] = {}
        for job, state in run_cells(settings, out):
            states[job] = state
            say(f"cell {job}: {state}")
            if state == "done":
                update_board(out)
    except KeyboardInterrupt:
        again = command_line(LeaderboardOptions, raw)
        say(f"interrupted; all finished cells are kept. Continue with:\n  {again}")
        raise SystemExit(INTERRUPTED) from None
    _print_boards(out, as_json=as_json)
    if "incomplete" in states.values():
        say("some cells are incomplete; after fixing the cause, run the same command again")
        raise SystemExit(FAILED)


def _rank_stored(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    options, found = read(LeaderboardOptions, raw, problems)
    texts = located(found, raw)
    others = [
        field.flag for name, field in fields_of(LeaderboardOptions).items() if name in raw and name not in _WITH_FROM
    ]
    if others:
        texts.append(f"{', '.join(others)}: --from ranks stored rows and runs nothing; leave out the other options")
    if dry_run:
        texts.append("--dry-run has no effect with --from, which runs no trials")
    raise_if_any(texts)
    from analysis.leaderboard.board import boards, read_cells
    from analysis.report.leaderboard_text import board_content, board_markdown
    from sweeper.leaderboard import write_board

    cells = read_cells(Path(str(options.cells)))
    ranked = write_board(Path(options.out), cells) if options.out else boards(cells)
    click.echo(json_text(board_content(ranked)) if as_json else board_markdown(ranked), nl=as_json)


def _print_boards(out: Path, *, as_json: bool) -> None:
    from analysis.report.leaderboard_text import board_content, board_markdown
    from sweeper.leaderboard import update_board

    ranked = update_board(out)
    click.echo(json_text(board_content(ranked)) if as_json else board_markdown(ranked), nl=as_json)
    if not as_json:
        click.echo(f"leaderboard: {shlex.quote(str(out / 'leaderboard.md'))}")


def _print_plan(plan: BoardPlan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(plan.to_dict()))
        return
    from analysis.frontier.choice import RUNNERS_UP
    from analysis.words import duration

    click.echo("dry run of leaderboard: nothing was started")
    click.echo(f"  cells       {len(plan.missing)} of {len(plan.cells)} remain")
    click.echo(f"  search      {plan.epochs} epochs")
    most = (1 + RUNNERS_UP) * plan.fresh_runs
    click.echo(f"  fresh runs  {plan.fresh_runs}, or up to {most} if runners-up are trained, too")
    click.echo(f"  targets     {plan.targets}, which all methods share")
    time = "unknown: there is no previous sweep with similar trials"
    if plan.seconds is not None:
        time = f"about {duration(plan.seconds)} for the search"
    click.echo(f"  time        {time}")
