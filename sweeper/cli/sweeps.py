"""The commands that run sweeps: ``pareto``, ``lr-study`` and ``resume``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sweeper.cli.options import CONFIG, DRY_RUN, command, json_option
from sweeper.cli.outcome import evaluate_studies, print_study, run_to_the_end
from sweeper.cli.plan import print_plan
from sweeper.settings.fields import PARETO, RESUME, STUDY
from sweeper.settings.sources import Options, Problems, Raw, raise_if_any

_JSON = json_option("Print the summary as JSON on stdout.")
_FROM_OPTIONS = ("folders", "out", "objectives")
"""The only options that ``lr-study --from`` accepts."""


@command(PARETO, CONFIG, DRY_RUN, _JSON)
def pareto(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Search the trade-off between forgetting and retaining for one or more methods, and write a report.

    Every trial unlearns one model with one method, one learning rate and, for gdiff, one value of --c. At the end, the
    folder OUT contains trials.csv, pareto.json, pareto.png, report.html and the checkpoints.
    """
    _run_new(PARETO, raw, problems, dry_run=dry_run, as_json=as_json)


@command(STUDY, CONFIG, DRY_RUN, _JSON)
def lr_study(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Compare fixed learning rates and AutoLR for each method.

    For each seed, each method runs with each fixed learning rate and with AutoLR. The folder OUT contains the files of
    a sweep, and lr_study.json. For each method, lr_study.json shows how much the hypervolume depends on the learning
    rate, and which rates are within 5% of the best hypervolume. The file also compares AutoLR with the best fixed rate.
    With --from, no trials run, and finished studies are evaluated again.
    """
    if not raw.get("folders"):
        _run_new(STUDY, raw, problems, dry_run=dry_run, as_json=as_json)
        return
    options = Options(STUDY, raw)
    _check_from_options(options, dry_run=dry_run)
    raise_if_any(options.problems)
    from analysis.report.study_text import study_content

    folders = [Path(folder) for folder in options["folders"]]
    path = Path(options["out"]) if options["out"] else None
    study = evaluate_studies(folders, path=path, objectives=options.explicit("objectives"))
    if as_json:
        click.echo(json.dumps(study_content(study)))
    else:
        print_study(study)


@command(RESUME, click.argument("folder", type=click.Path()), DRY_RUN, _JSON)
def resume(raw: Raw, problems: list[str], *, folder: str, dry_run: bool, as_json: bool) -> None:
    """Continue the sweep in FOLDER.

    Finished trials are kept. Unfinished trials continue from their last saved state. If FOLDER is the address of a
    sweep in a bucket (s3://BUCKET/PREFIX/NAME), the sweep's tables are downloaded first.
    """
    from sweeper.store.plugins import restore_plugins
    from trainables.storage import is_address, storage_problem

    options = Options(RESUME, raw, problems=problems)
    names = ("trials", "epoch_budget", "until", "address")
    changes = {name: options[name] for name in names if options[name] is not None}
    if options["extend"]:
        changes["extend"] = True
    if options["no_ship"]:
        changes["ship"] = False
    if changes.get("address") == "none":
        changes["address"] = None
    if is_address(folder):
        folder, local_changes = _fetch_tables(folder, options)
        changes |= local_changes
    elif options["out"] is not None:
        reason = f"the sweep continues in {folder}; leave out --out, which is only for a sweep in a bucket"
        options.add(f"--out {options['out']}: {reason}")
    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.store.folder import read_settings  # imports the registries, so the plug-ins must be loaded before

    if changes:
        _check_changes(options, out, changes)
    raise_if_any(options.problems)
    storage = changes.get("storage", read_settings(out).storage)
    if storage is not None and is_address(storage):
        options.extend([storage_problem(storage)], "storage")
        raise_if_any(options.problems)
    if dry_run:
        _print_plan(out, changes, as_json=as_json)
        return
    from sweeper.execution.placement import PlacementError

    try:
        run_to_the_end(out, as_json=as_json, changes=changes, retry_failed=options["retry"] is not None)
    except PlacementError as error:
        raise PlacementError(
            f"{error}; to continue on another cluster, resume with --address ADDRESS; to continue on this machine "
            "alone, resume with --address none"
        ) from None


def _run_new(command: str, raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    from sweeper.checks.world import resolve_and_check

    resolved = resolve_and_check(command, raw, problems)
    settings, out_option = resolved.settings, resolved.options["out"]
    assert settings is not None
    if dry_run:
        from sweeper.checks.plan import plan_of_sweep

        out = Path(out_option or f"runs/{settings.name}-TIME")
        print_plan(plan_of_sweep(settings, out), as_json=as_json)
        return
    from sweeper.api import output_folder
    from sweeper.execution.placement import PlacementError
    from sweeper.store.folder import begin, discard

    out = output_folder(out_option, name=settings.name)
    begin(settings, out)
    try:
        run_to_the_end(out, as_json=as_json, changes={"tracking_uri": settings.tracking_uri})  # includes the password
    except PlacementError:
        discard(out)
        raise


def _check_from_options(options: Options, *, dry_run: bool) -> None:
    """Check the options of ``lr-study --from``, and add the problems to ``options``."""
    if options["out"] is None and len(options["folders"]) > 1:
        options.add("--from with several folders needs --out FILE.json for the result")
    if options["out"] is not None and Path(options["out"]).is_dir():
        options.add(f"--out {options['out']}: this is a folder; with --from, --out names the JSON file of the result")
    if dry_run:
        options.add("--dry-run has no effect with --from, which runs no trials")
    from sweeper.settings.objectives import ObjectiveError, parse_objectives

    try:
        parse_objectives(options["objectives"])
    except ObjectiveError as error:
        options.add(str(error), "objectives")
    for name in options.raw:
        if name not in _FROM_OPTIONS and options.is_typed(name):
            flag = options.fields[name].flag
            options.add(f"{flag} is an option of a new study, but --from evaluates finished studies: leave out {flag}")


def _fetch_tables(uri: str, options: Options) -> tuple[str, dict[str, Any]]:
    """Download the tables of the sweep at ``uri``. Return the local folder, and new values for settings.

    The new values replace stored values that are not valid on this machine.
    """
    from sweeper.checks.world import output_problems
    from sweeper.followers.syncer import fetch_sweep
    from sweeper.settings.tracking_uri import absolute_uri, default_uri, sqlite_path
    from sweeper.store.folder import read_settings
    from sweeper.store.lease import other_driver
    from trainables.storage import Storage, address_problem

    options.extend([address_problem(uri)])
    raise_if_any(options.problems)
    storage = Storage(uri)
    folder = options["out"] or str(Path("runs") / storage.name)
    raise_if_any(output_problems(folder))
    driver_problem = other_driver(storage, Path(folder), say=lambda line: click.echo(line, err=True))
    if driver_problem:
        raise Problems([driver_problem])  # before anything is written to the folder
    if not fetch_sweep(storage, Path(folder)):
        raise Problems([f"{uri} holds no sweep: there is no sweep.json in it"])
    changes: dict[str, Any] = {"storage": storage.parent.uri, "stored_as": storage.name}
    database = sqlite_path(read_settings(Path(folder)).tracking_uri)
    if database is not None and not database.parent.is_dir():
        changes["tracking_uri"] = absolute_uri(default_uri())
        click.echo(
            f"{database.parent} does not exist on this machine, so MLflow's database is now {changes['tracking_uri']}",
            err=True,
        )
    click.echo(f"downloaded the tables of {uri} to {folder}", err=True)
    return folder, changes


def _print_plan(out: Path, changes: dict[str, Any], *, as_json: bool) -> None:
    from sweeper.checks.plan import plan_of_sweep
    from sweeper.store.event_log import read_state
    from sweeper.store.folder import read_settings

    settings, state = replace(read_settings(out), **changes), read_state(out)
    ended_count = sum(trial.has_result for trial in state.ended_trials)
    plan = plan_of_sweep(settings, out, ended=ended_count, epochs_spent=state.trained_epochs)
    print_plan(plan, as_json=as_json)


def _check_changes(options: Options, out: Path, changes: Mapping[str, Any]) -> None:
    from sweeper.execution.placement import address_problem
    from sweeper.settings.until import UntilError, parse_until
    from sweeper.store.event_log import read_state
    from sweeper.store.folder import read_settings

    settings = read_settings(out)
    options.extend([address_problem(changes.get("address"))], "address")
    if "extend" in changes and settings.kind != STUDY:
        options.add(f"--extend: the sweep in {out} is not a learning-rate study, so it has no grid to extend")
    trials = changes.get("trials")
    ended_count = len(read_state(out).ended)
    max_trials = math.inf
    if settings.sampler == "grid":
        max_trials = (len(settings.space.grid()) + len(settings.extension)) * settings.seeds
    if trials is not None and 0 < trials < ended_count:
        options.add(
            f"--trials {trials} is the new total, but {ended_count} trials have ended: give at least {ended_count}"
        )
    elif trials is not None and trials > max_trials:
        options.add(
            f"--trials {trials}: the grid of this sweep has only {max_trials} trials; start a new sweep with more "
            f"values or seeds and --reuse {out}, which runs only the missing trials"
        )
    try:
        parse_until(changes.get("until"))
    except UntilError as error:
        options.add(str(error), "until")
