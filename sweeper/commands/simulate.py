"""``simulate``: replay searches on a table of trials that were run before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from search_spaces.messages import expected_one_of
from sweeper.commands import options
from sweeper.commands.errors import plain_errors, refuse
from sweeper.commands.plugin_option import PLUGIN
from sweeper.plugins import take_up

if TYPE_CHECKING:
    from sweeper.simulation.replay import Arm
    from sweeper.simulation.summary import Simulated
    from sweeper.simulation.table import Table, Yardstick


@click.command()
@click.argument("table", type=click.Path())
@click.option("--sampler", multiple=True, help="As for pareto; repeats, each is an arm.  [default: tpe, random]")
@click.option("--scheduler", multiple=True, help="none or moasha; repeats.  [default: none, moasha]")
@click.option("--candidates", multiple=True, help="all or last; repeats.  [default: all]")
@click.option("--grace", type=options.WHOLE, default=1, show_default=True, help="moasha: epochs before the first rung.")
@click.option(
    "--reduction", type=options.WHOLE, default=2, show_default=True, help="moasha: about one in so many goes on."
)
@click.option("--stopping", default="stop", show_default=True, help="moasha: stop, or pause and maybe go on.")
@click.option("--trials", type=options.WHOLE, help="Trials in all.  [default: the table's runs]")
@click.option("--epoch-budget", type=options.WHOLE, help="Epochs of all trials together.  [default: no limit]")
@click.option("--workers", type=options.WHOLE, default=1, show_default=True, help="Trials side by side.")
@click.option("--seeds", type=options.WHOLE, default=20, show_default=True, help="Searches per arm.")
@click.option("--seed", type=options.WHOLE, default=0, show_default=True, help="First seed of the searches.")
@click.option("--table-seed", type=options.WHOLE, multiple=True, help="Only the table's runs of this seed; repeats.")
@click.option("--objectives", help="NAME:max|min,...  [default: the sweep's, or forget_loss:max,retain_loss:min]")
@PLUGIN
@click.option("--out", type=click.Path(), help="Folder for simulation.json, simulation.csv and the figure.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@plain_errors
def simulate(table: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Replay searches on TABLE and say how soon each has its front: choose sampler, scheduler and budget before paying.

    TABLE is the folder of an earlier sweep, or a CSV with a row per run and epoch, also compressed (docs/search.md).
    Every combination of samplers, schedulers and candidates is an arm. Nothing is trained: a proposal is answered by
    the nearest run of the table that was not had yet, and an epoch costs one unit.
    """
    path = Path(table)
    take_up(path)
    refuse([*options.given_problems(), *_problems(path, out, given)])
    from sweeper.simulation.read_table import read_tables
    from sweeper.simulation.summary import lines, to_dict
    from sweeper.simulation.table import Yardstick

    tables = _chosen(path, read_tables(path, _objectives(path, given)), given["table_seed"])
    yardsticks = [Yardstick.of(item) for item in tables]
    arms = _arms(given, tables)
    _check_grid(arms, tables)
    simulated = [_simulate(arm, tables, yardsticks, given) for arm in arms]
    content = {"table": str(path), **to_dict(tables, yardsticks, simulated)}
    click.echo(json.dumps(content) if as_json else "\n".join(lines(content)))
    if out is not None:
        for written in _write(Path(out), content, simulated, tables[0]):
            click.echo(written, err=as_json)


def _problems(path: Path, out: str | None, given: Mapping[str, Any]) -> list[str]:
    from sweeper.candidates import CANDIDATES
    from sweeper.commands.checks import place_problems
    from sweeper.samplers import SAMPLERS
    from sweeper.scheduling.rungs import MODES
    from sweeper.scheduling.schedulers import NONE, SCHEDULERS
    from sweeper.trade_off import ObjectiveError, parse_objectives

    problems = [] if path.exists() else [f"there is no table {path}: expected a CSV or the folder of a sweep"]
    known = {"sampler": tuple(SAMPLERS), "scheduler": (NONE, *SCHEDULERS), "candidates": CANDIDATES, "stopping": MODES}
    for name, choices in known.items():
        values = given[name] if isinstance(given[name], tuple) else (given[name],)
        problems += [
            f"unknown {name} '{value}': {expected_one_of(value, choices)}" for value in values if value not in choices
        ]
    least = {"grace": 1, "reduction": 2, "trials": 1, "epoch_budget": 1, "workers": 1, "seeds": 1}
    problems += [
        f"--{name.replace('_', '-')} must be at least {low}, got {given[name]}"
        for name, low in least.items()
        if given[name] is not None and given[name] < low
    ]
    if given["seed"] is not None and given["seed"] < 0:
        problems.append(f"--seed must be at least 0, got {given['seed']}")
    if given["objectives"] is not None:
        try:
            parse_objectives(given["objectives"])
        except ObjectiveError as error:
            problems.append(str(error))
    return problems + (place_problems(out) if out is not None else [])


def _objectives(path: Path, given: Mapping[str, Any]) -> Any:
    from sweeper.folder import read_settings
    from sweeper.trade_off import DEFAULT_OBJECTIVES, parse_objectives

    if given["objectives"] is None and path.is_dir():
        return read_settings(path).parsed_objectives
    return parse_objectives(given["objectives"] or DEFAULT_OBJECTIVES)


def _chosen(path: Path, tables: list[Table], seeds: tuple[int, ...]) -> list[Table]:
    there = [table.seed for table in tables]
    refuse(
        [
            f"--table-seed {seed}: {path} has runs of seed {', '.join(map(str, there))}"
            for seed in seeds
            if seed not in there
        ]
    )
    return [table for table in tables if not seeds or table.seed in seeds]


def _arms(given: Mapping[str, Any], tables: list[Table]) -> list[Arm]:
    from sweeper.scheduling.schedulers import NONE, SCHEDULERS
    from sweeper.simulation.replay import Arm

    shared = {name: given[name] for name in ("grace", "reduction", "stopping", "epoch_budget", "workers")}
    shared["trials"] = given["trials"] or max(len(table.runs) for table in tables)
    arms = [
        Arm(sampler=sampler, scheduler=scheduler, candidates=candidates, **shared)
        for candidates in given["candidates"] or ("all",)
        for scheduler in given["scheduler"] or (NONE, *SCHEDULERS)
        for sampler in given["sampler"] or ("tpe", "random")
    ]
    epochs = max(table.epochs for table in tables)
    if any(arm.scheduler != NONE for arm in arms) and given["grace"] >= epochs:
        refuse([f"--grace {given['grace']}: the first rung must lie below the {epochs} epochs of the table's runs"])
    return list(dict.fromkeys(arms))


def _check_grid(arms: list[Arm], tables: list[Table]) -> None:
    if any(arm.sampler == "grid" for arm in arms):
        try:
            tables[0].space.grid()
        except ValueError as error:
            refuse([f"--sampler grid: {error}"])


def _simulate(arm: Arm, tables: list[Table], yardsticks: list[Yardstick], given: Mapping[str, Any]) -> Simulated:
    from sweeper.simulation.progress import progress
    from sweeper.simulation.replay import replay
    from sweeper.simulation.summary import Simulated

    epochs = max(table.all_epochs for table in tables)
    courses, curves = [], []
    for number in range(given["seeds"]):
        table, yardstick = tables[number % len(tables)], yardsticks[number % len(tables)]
        courses.append(replay(table, arm, seed=given["seed"] + number))
        curves.append(progress(courses[-1], yardstick, epochs=epochs))
    return Simulated(arm, tuple(courses), tuple(curves))


def _write(out: Path, content: Mapping[str, object], simulated: list[Simulated], table: Table) -> list[str]:
    """The result, its curves and their picture; returns what to tell."""
    from analysis.figures.draw_panels import draw_panels
    from analysis.figures.style import save_figure
    from search_spaces.durable import write_json, write_whole
    from sweeper.simulation.summary import figure

    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "simulation.json", dict(content))
    rows = ["arm,seed,epochs,hypervolume,epsilon"]
    for item in simulated:
        for place, (course, curve) in enumerate(zip(item.courses, item.curves, strict=True)):
            rows += [
                f'"{item.arm.label}",{place},{epochs},{curve.share[epochs]:.6g},{curve.epsilon[epochs]:.6g}'
                for epochs in range(course.spent + 1)
            ]
    write_whole(out / "simulation.csv", "\n".join(rows) + "\n")
    save_figure(draw_panels(figure(simulated, tenth=table.all_epochs / 10)), out, "simulation")
    return [f"written: {out / 'simulation.json'}, simulation.csv, simulation.png, simulation.svg"]
