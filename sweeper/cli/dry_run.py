"""``--dry-run``: print what a command would do and need, without starting it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sweeper.checks.plan import Plan
    from sweeper.settings.sweep_settings import SweepSettings
    from trainables.spec import TrialSpec

_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, how long it takes and what it needs; start nothing."
)
_MEASURE = click.option(
    "--measure",
    is_flag=True,
    help="With --dry-run: prepare the target (fine-tune it if the cache lacks it) and time one epoch for the estimate.",
)


def dry_run_options(command: Any) -> Any:
    """Add ``--dry-run`` and ``--measure`` to a command."""
    return _DRY_RUN(_MEASURE(command))


def say_plan_of_sweep(
    settings: SweepSettings,
    out: str | None,
    *,
    measure: bool,
    as_json: bool,
    ended: int = 0,
    epochs_spent: float = 0.0,
) -> None:
    """Print the plan for a sweep of which ``ended`` trials have ended and ``epochs_spent`` epochs were trained."""
    from sweeper.checks.plan import plan_of_sweep
    from sweeper.cli.console import own_console

    folder = Path(out) if out is not None else Path("runs") / f"{settings.name}-TIME"
    others = [Path(item) for item in (*settings.reuse, *settings.warm_start)]
    earlier = [folder, *others, *_neighbours(folder)]
    plan = plan_of_sweep(
        settings,
        folder,
        ended=ended,
        epochs_spent=epochs_spent,
        earlier=earlier,
        measure=measure,
        console=own_console(),
    )
    _say(plan, as_json=as_json)


def say_plan_of_run(spec: TrialSpec, out: Path | None, *, measure: bool, as_json: bool) -> None:
    """Print the plan for one run."""
    from sweeper.checks.plan import plan_of_run
    from sweeper.cli.console import own_console

    earlier = _neighbours(out or Path("runs") / "run")
    _say(plan_of_run(spec, out, earlier=earlier, measure=measure, console=own_console()), as_json=as_json)


def _neighbours(out: Path) -> Sequence[Path]:
    """The sweeps beside ``out`` and those in runs/, the newest first."""
    tables = [path for place in (out.parent, Path("runs")) for path in place.glob("*/trials.csv")]
    return [path.parent for path in sorted(tables, key=lambda path: -path.stat().st_mtime)]


def _say(plan: Plan, *, as_json: bool) -> None:
    from sweeper.checks.plan import words

    click.echo(json.dumps(plan.to_dict()) if as_json else "\n".join(words(plan)))
