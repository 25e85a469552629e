"""Print the plan of a command for ``--dry-run``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.messages import counted, size

if TYPE_CHECKING:
    from sweeper.checks.plan import Plan
    from sweeper.settings.sweep_settings import SweepSettings
    from trainables.spec import TrialSpec


def print_plan_of_sweep(
    settings: SweepSettings, out: str | None, *, measure: bool, as_json: bool, ended: int = 0, epochs_spent: float = 0.0
) -> None:
    """Print the plan for a sweep in which ``ended`` trials have ended and ``epochs_spent`` epochs were trained."""
    from sweeper.checks.plan import plan_of_sweep
    from sweeper.followers.console import own_console

    folder = Path(out) if out is not None else Path("runs") / f"{settings.name}-TIME"
    others = [Path(item) for item in (*settings.reuse, *settings.warm_start)]
    earlier = [folder, *others, *_neighbours(folder)]
    console = own_console()
    plan = plan_of_sweep(
        settings, folder, ended=ended, epochs_spent=epochs_spent, earlier=earlier, measure=measure, console=console
    )
    _print(plan, as_json=as_json)


def print_plan_of_run(spec: TrialSpec, out: Path | None, *, measure: bool, as_json: bool) -> None:
    """Print the plan for one run (``unlearn``)."""
    from sweeper.checks.plan import plan_of_run
    from sweeper.followers.console import own_console

    earlier = _neighbours(out or Path("runs") / "run")
    _print(plan_of_run(spec, out, earlier=earlier, measure=measure, console=own_console()), as_json=as_json)


def _neighbours(out: Path) -> Sequence[Path]:
    """Return the sweeps in the parent folder of ``out`` and in runs/, newest first."""
    tables = [path for place in (out.parent, Path("runs")) for path in place.glob("*/trials.csv")]
    return [path.parent for path in sorted(tables, key=lambda path: -path.stat().st_mtime)]


def _print(plan: Plan, *, as_json: bool) -> None:
    click.echo(json.dumps(plan.to_dict()) if as_json else "\n".join(plan_lines(plan)))


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as lines of text."""
    cpus, gpus = plan.resources.cpus, plan.resources.gpus
    total = f" of {plan.asked}" if plan.trials != plan.asked else ""
    unknown = {
        name: f"unknown: {why}; add --measure to estimate it with one short trial" for name, why in plan.unknown.items()
    }
    share = " and a share of a GPU, which the first trial of each class measures (auto)" if plan.shares_gpus else ""
    whole = f" and {counted(gpus, 'GPU')}" if gpus and not plan.shares_gpus else ""
    disk = plan.disk.words(Path(plan.out), free=plan.free).removeprefix("disk: ") if plan.disk else "nothing is kept"
    lines = {
        "trials": f"{plan.trials}{total}",
        "placement": f"{plan.at_once} at once {plan.place}; a trial takes {counted(cpus, 'CPU')}{share}{whole}",
        "downloads": "; ".join(item.words() for item in plan.downloads) or "none",
        "target": plan.target,
        "time": _time(plan) or unknown["seconds"],
        "memory": unknown.get("memory") or f"about {size(plan.memory or 0)} a trial ({plan.memory_source})",
        "disk": unknown.get("disk") or disk,
    }
    settings = {name.replace("_", " "): value for name, value in plan.settings.items()}
    shown = {"out": plan.out or "none, so the model is not kept", **settings, **lines}
    width = max(map(len, shown))
    done = "the target was prepared and cached, and one epoch was timed" if plan.measured else "nothing was trained"
    return [f"dry run of {plan.what}: not started; {done}", *(f"  {n:<{width}}  {v}" for n, v in shown.items())]


def _time(plan: Plan) -> str:
    from analysis.words import duration

    if plan.pace is None or plan.seconds is None or plan.at_most is None:
        return ""
    about = f"about {duration(plan.seconds)}"
    if plan.pace.share is not None and plan.seconds < plan.at_most:
        about += f", {duration(plan.at_most)} if no trial ends early"
    return f"{about}; estimated from {plan.pace.source}"
