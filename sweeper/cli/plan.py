"""Print the plan of a command for ``--dry-run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.messages import counted, size

if TYPE_CHECKING:
    from sweeper.checks.plan import Plan


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print the plan as text or as JSON."""
    click.echo(json.dumps(plan.to_dict()) if as_json else "\n".join(plan_lines(plan)))


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as lines of text."""
    cpus, gpus = plan.resources.cpus, plan.resources.gpus
    total = f" of {plan.asked}" if plan.trials != plan.asked else ""
    unknown = {name: f"unknown: {why}" for name, why in plan.unknown.items()}
    counts = "weights, gradients and optimizer state; not activations or, on a CPU, the process"
    share = " and a share of a GPU, measured with the first of similar trials (auto)" if plan.shares_gpus else ""
    whole = f" and {counted(gpus, 'GPU')}" if gpus and not plan.shares_gpus else ""
    disk = plan.disk.format(Path(plan.out), free=plan.free).removeprefix("disk: ") if plan.disk else "nothing is kept"
    lines = {
        "trials": f"{plan.trials}{total}",
        "placement": f"{plan.at_once} at once {plan.place}; a trial takes {counted(cpus, 'CPU')}{share}{whole}",
        "downloads": "; ".join(item.format() for item in plan.downloads) or "none",
        "target": plan.target,
        "time": _time(plan) or unknown["seconds"],
        "memory": unknown.get("memory") or f"about {size(plan.memory or 0)} a trial ({counts})",
        "disk": unknown.get("disk") or disk,
    }
    settings = {name.replace("_", " "): value for name, value in plan.settings.items()}
    shown = {"out": plan.out or "none, so the model is not kept", **settings, **lines}
    width = max(map(len, shown))
    return [f"dry run of {plan.what}: nothing was started", *(f"  {n:<{width}}  {v}" for n, v in shown.items())]


def _time(plan: Plan) -> str:
    from analysis.words import duration

    if plan.pace is None or plan.seconds is None or plan.at_most is None:
        return ""
    about = f"about {duration(plan.seconds)}"
    if plan.pace.share is not None and plan.seconds < plan.at_most:
        about += f", {duration(plan.at_most)} if no trial ends early"
    return f"{about}; estimated from {plan.pace.source}"
