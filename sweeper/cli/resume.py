"""``resume``: go on with a sweep that was interrupted or killed, or that is to have more trials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.cli import options
from sweeper.cli.dry_run import dry_run_options
from sweeper.cli.errors import plain_errors, refuse
from sweeper.cli.pareto import run_to_the_end
from sweeper.store.plugins import restore_plugins
from trainables.storage import is_address

if TYPE_CHECKING:
    from sweeper.settings.sweep_settings import SweepSettings


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--out", type=click.Path(), help="With an address as FOLDER: the new folder.  [default: runs/NAME]")
@click.option("--trials", type=options.WHOLE, help="Trials in all from now on; a finished sweep goes on.")
@click.option("--epoch-budget", type=options.WHOLE, help="Epochs trained in all from now on.")
@click.option("--until", metavar="plateau[:N:X]|none", help="When to end from now on, as in pareto.")
@click.option("--address", metavar="ADDRESS|none", help="The Ray cluster to go on with; none for this machine alone.")
@click.option("--no-ship", is_flag=True, help="The nodes have this project: it is not sent to them any more.")
@click.option("--extend", is_flag=True, help="Of an lr-study: run rates beyond the edge of its grid, too.")
@click.option(
    "--retry", metavar="failed", help="Run failed trials again; those a disk, memory or a node ended do so anyway."
)
@dry_run_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@plain_errors
def resume(
    folder: str,
    out: str | None,
    as_json: bool,
    extend: bool,
    no_ship: bool,
    retry: str | None,
    dry_run: bool,
    measure: bool,
    **given: Any,
) -> None:
    """Go on with the sweep in FOLDER: finished trials are kept, running ones continue.

    FOLDER may be the address of a sweep in its storage, s3://BUCKET/PREFIX/NAME, whose tables are fetched.
    """
    change = {name: value for name, value in given.items() if value is not None}
    change |= {"extend": True} if extend else {}
    change |= {"ship": False} if no_ship else {}
    if change.get("address") == "none":
        change["address"] = None
    wrong = [f"--retry {retry}: expected failed"] if retry not in (None, "failed") else []
    if is_address(folder):
        folder, moved = _fetched(folder, out, wrong)
        change |= moved
    elif out is not None:
        wrong.append(f"--out {out}: the sweep goes on in {folder}; it is for one that is fetched from its storage")
    restore_plugins(Path(folder))  # what is to be told of them is told below
    refuse(options.given_problems() + wrong + (_problems(Path(folder), change) if change else []))
    refuse(_problems_of_storage(Path(folder), change))
    if dry_run:
        _say_plan(Path(folder), change, measure=measure, as_json=as_json)
        return
    from sweeper.execution.placement import PlacementError

    try:
        run_to_the_end(Path(folder), as_json=as_json, change=change, retry_failed=retry is not None)
    except PlacementError as error:
        raise PlacementError(
            f"{error}; resume goes on with another cluster by --address ADDRESS, or on this machine alone by "
            "--address none"
        ) from None


def _fetched(uri: str, out: str | None, wrong: list[str]) -> tuple[str, dict[str, Any]]:
    """The folder here that has the tables of the sweep at an address, and its settings that are others here."""
    from sweeper.checks.specs import output_problems
    from sweeper.cli.from_options import DEFAULT_TRACKING
    from sweeper.followers.syncer import fetch_sweep
    from sweeper.settings.tracking_uri import absolute_uri, sqlite_path
    from sweeper.store.folder import read_settings
    from sweeper.store.lease import other_driver
    from trainables.storage import Storage, address_problem

    refuse([*options.given_problems(), *wrong, *(problem for problem in (address_problem(uri),) if problem)])
    storage = Storage(uri)
    folder = out or str(Path("runs") / storage.name)
    refuse(output_problems(folder))
    other = other_driver(storage, Path(folder), say=lambda line: click.echo(line, err=True))
    refuse([other] if other else [])  # before anything is in the folder
    if not fetch_sweep(storage, Path(folder)):
        refuse([f"{uri} holds no sweep: there is no sweep.json in it"])
    above = storage.above
    change: dict[str, Any] = {"storage": above.uri, "stored_as": storage.name}
    settings = read_settings(Path(folder))
    database = sqlite_path(settings.tracking_uri)
    if database is not None and not database.parent.is_dir():
        change["tracking_uri"] = absolute_uri(os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING)
        click.echo(f"there is no {database.parent} here: MLflow's database is {change['tracking_uri']}", err=True)
    click.echo(f"fetched the tables of {uri} into {folder}", err=True)
    return folder, change


def _problems_of_storage(out: Path, change: Mapping[str, Any]) -> list[str]:
    """Why the storage of the sweep cannot be used now."""
    from sweeper.store.folder import read_settings
    from trainables.storage import storage_problem

    storage = change.get("storage", read_settings(out).storage)
    return [problem for problem in (storage_problem(storage) if is_address(storage) else None,) if problem]


def _say_plan(out: Path, change: dict[str, Any], *, measure: bool, as_json: bool) -> None:
    from dataclasses import replace

    from sweeper.cli.dry_run import say_plan_of_sweep
    from sweeper.search.stopping import Stopping
    from sweeper.store.folder import check_record, read_settings
    from sweeper.store.tables import ResultTables
    from trainables.run.failures import is_no_result

    settings = replace(read_settings(out), **change)
    check_record(out)
    tables = ResultTables(out)
    rows = tables.trials.read()
    ended = sum(not is_no_result(row["status"], row["error"]) for row in rows)
    spent = Stopping()
    spent.restore(tables.trained_here())
    say_plan_of_sweep(settings, str(out), measure=measure, as_json=as_json, ended=ended, epochs_spent=spent.epochs)


def _problems(out: Path, change: dict[str, Any]) -> list[str]:
    """Why the sweep cannot go on with these settings."""
    from sweeper.execution.placement import address_problem
    from sweeper.search.stopping import stopping_problems
    from sweeper.settings.sweep_settings import LR_STUDY
    from sweeper.store.folder import check_record, read_settings
    from sweeper.store.tables import ResultTables

    settings, found = read_settings(out), list[str]()
    check_record(out)
    found += filter(None, [address_problem(change.get("address"))])
    if "extend" in change and settings.kind != LR_STUDY:
        found.append(f"--extend: the sweep in {out} is no learning-rate study and has no edge to go beyond")
    trials, done = change.get("trials"), len(ResultTables(out).trials.read())
    if trials is not None and trials < max(1, done):
        found.append(f"--trials {trials}: {done} trials have ended already; it is how many there are to be in all")
    elif trials is not None and settings.sampler == "grid" and trials > (size := _grid_size(settings)):
        found.append(
            f"--trials {trials}: the grid of this sweep has {size} and cannot have more; begin a new sweep with more "
            f"values or seeds and --reuse {out}, which runs only what is missing"
        )
    return found + stopping_problems(until=change.get("until"), epoch_budget=change.get("epoch_budget"))


def _grid_size(settings: SweepSettings) -> int:
    return (len(settings.space.grid()) + len(settings.extension)) * settings.seeds
