"""``--dry-run``: what a command would do and take, without beginning it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sweeper.planning.plan import Plan
    from sweeper.settings import SweepSettings
    from trainables.spec import TrialSpec

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, how long it takes and what it needs; begin nothing."
)


def say_plan_of_sweep(
    settings: SweepSettings, out: str | None, *, as_json: bool, ended: int = 0, epochs_spent: float = 0.0
) -> None:
    """Print the plan of a sweep, of whose trials so many have ``ended``, and of whose budget ``epochs_spent``."""
    from sweeper.console import own_console
    from sweeper.planning.plan import plan_of_sweep

    folder = Path(out) if out is not None else Path("runs") / f"{settings.name}-TIME"
    others = [Path(item) for item in (*settings.reuse, *settings.warm_start)]
    earlier = [folder, *others, *_neighbours(folder)]
    plan = plan_of_sweep(
        settings, folder, ended=ended, epochs_spent=epochs_spent, earlier=earlier, console=own_console()
    )
    _say(plan, as_json=as_json)


def say_plan_of_run(spec: TrialSpec, out: Path | None, *, as_json: bool) -> None:
    """Print the plan of one run."""
    from sweeper.console import own_console
    from sweeper.planning.plan import plan_of_run

    earlier = _neighbours(out or Path("runs") / "run")
    _say(plan_of_run(spec, out, earlier=earlier, console=own_console()), as_json=as_json)


def _neighbours(out: Path) -> Sequence[Path]:
    """The sweeps beside ``out`` and those in runs/, the newest first."""
    tables = [path for place in (out.parent, Path("runs")) for path in place.glob("*/trials.csv")]
    return [path.parent for path in sorted(tables, key=lambda path: -path.stat().st_mtime)]


def _say(plan: Plan, *, as_json: bool) -> None:
    from sweeper.planning.plan import words

    click.echo(json.dumps(plan.to_dict()) if as_json else "\n".join(words(plan)))
