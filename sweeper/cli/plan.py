"""Print the plan of a command for ``--dry-run``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.common.messages import counted, format_size
from search_spaces.common.values import json_text

if TYPE_CHECKING:
    from sweeper.checks.confirmation import ConfirmPlan
    from sweeper.checks.plan import Plan


def print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(plan.to_dict()))
        return
    from analysis.words import duration
    from sweeper.settings.objectives import parse_objectives

    lines: dict[str, object] = {"out": plan.out or "none, so the model is not kept"}
    lines |= {name.replace("_", " "): value for name, value in plan.settings.items()}
    rules = str(lines.get("auto lr", "")).split(", ")
    remarks = ["gen is Eq. 8 of the paper; --auto-lr on means gen"] if "gen" in rules else []
    if "curvature" in rules and "lora rank" in lines:
        remarks.append("with LoRA, curvature chose rates that were 2 to 18 times the best fixed rate (docs/results.md)")
    if remarks:
        lines["auto lr"] = f"{lines['auto lr']} ({'; '.join(remarks)})"
    if "objectives" in lines:
        objectives = parse_objectives(str(lines["objectives"]))
        lines["objectives"] = ", ".join(f"{item.direction}imise {item.column}" for item in objectives)
    lines["trials"] = f"{plan.trials} of {plan.asked}" if plan.trials != plan.asked else plan.trials
    if plan.shares_gpus:
        gpus = " and a fraction of a GPU (auto: measured on the first of several similar trials)"
    else:
        gpus = f" and {counted(plan.resources.gpus, 'GPU')}" if plan.resources.gpus else ""
    cpus = counted(plan.resources.cpus, "CPU")
    lines["placement"] = f"{counted(plan.at_once, 'trial')} at once {plan.place}; each trial takes {cpus}{gpus}"
    if plan.decision is not None:
        lines["decision"] = plan.decision.format()
    if plan.attacks is not None:
        lines["attacks"] = plan.attacks.format()
    if plan.confirm is not None:
        lines["confirm"] = plan.confirm.format()
    lines["downloads"] = "; ".join(item.format() for item in plan.downloads) or "none"
    lines["target"] = plan.target
    unknown_values = {name: f"unknown: {reason}" for name, reason in plan.unknown.items()}
    if plan.pace is not None and plan.seconds is not None:
        lines["time"] = f"about {duration(plan.seconds)} if no trial ends early; estimated from {plan.pace.source}"
    else:
        lines["time"] = unknown_values.get("seconds")
    if plan.memory is not None:
        scope = "for weights, gradients and optimizer state, without activations and, on a CPU, without Python itself"
        lines["memory"] = f"about {format_size(plan.memory)} per trial {scope}"
    else:
        lines["memory"] = unknown_values.get("memory")
    disk = "nothing is kept"
    if plan.disk is not None:
        disk = plan.disk.format(Path(plan.out), free=plan.free).removeprefix("disk: ")
    lines["disk"] = unknown_values.get("disk", disk)
    width = max(len(name) for name in lines)
    click.echo(f"dry run of {plan.what}: nothing was started")
    for name, value in lines.items():
        click.echo(f"  {name:<{width}}  {value}")
    for note in plan.notes:
        click.echo(f"  note: {note}")


def print_confirm_plan(plan: ConfirmPlan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(asdict(plan)))
        return
    from analysis.words import duration

    click.echo(f"dry run of confirm: nothing was started\n  out     {plan.out}")
    model = f"trial {plan.trial_id} after epoch {plan.epoch:g}"
    if not plan.seeds:
        click.echo(f"  model   {model}: all fresh runs have ended")
        return
    seeds = ", ".join(map(str, plan.seeds))
    time = "" if plan.seconds is None else f", about {duration(plan.seconds)} of trial time"
    click.echo(f"  model   {model}\n  runs    {counted(len(plan.seeds), 'fresh run')}, seeds {seeds}")
    limit = f"; at most {plan.max_epochs:g} epochs with the runners-up" if plan.max_epochs > plan.epochs else ""
    click.echo(f"  cost    {plan.epochs:g} epochs{time}{limit}")
