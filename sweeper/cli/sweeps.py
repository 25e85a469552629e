"""The commands that run sweeps: ``pareto``, ``lr-study``, ``resume``, ``confirm``, ``attack`` and ``audit``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from search_spaces.common.values import json_text
from sweeper.cli.errors import say
from sweeper.cli.options import CONFIG, DRY_RUN, command, json_option
from sweeper.cli.outcome import evaluate_studies, print_study, run_to_the_end
from sweeper.cli.plan import print_confirm_plan, print_plan
from sweeper.settings.fields import fields_of
from sweeper.settings.names import STUDY
from sweeper.settings.options import (
    AttackOptions,
    AuditOptions,
    ConfirmOptions,
    ParetoOptions,
    ResumeOptions,
    StudyOptions,
    SweepOptions,
)
from sweeper.settings.reading import Problem, about, located, read
from sweeper.settings.sources import Problems, Raw, raise_if_any

_JSON = json_option("Print the summary as JSON on stdout.")
_FROM_OPTIONS = ("folders", "out", "objectives", "describe")
"""The only options that ``lr-study --from`` accepts."""


@command(ParetoOptions, CONFIG, DRY_RUN, _JSON)
def pareto(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Search the trade-off between forgetting and retaining for one or more methods, and write a report.

    Every trial unlearns one model with one method, one learning rate and, for gdiff, one value of --c. At the end, the
    folder OUT contains trials.csv, pareto.json, pareto.png, report.html and the checkpoints.
    """
    _run_new(ParetoOptions, raw, problems, dry_run=dry_run, as_json=as_json)


@command(StudyOptions, CONFIG, DRY_RUN, _JSON)
def lr_study(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Compare fixed learning rates and AutoLR for each method.

    For each seed, each method runs with each fixed learning rate and with AutoLR from the same rates. The folder OUT
    contains the files of a sweep, and lr_study.json. The file shows whether AutoLR is better than every fixed rate, as
    good as the best one, or worse, and how much the results depend on the learning rate. With --from, no trials run,
    and finished studies are evaluated again.
    """
    if "folders" not in raw:
        _run_new(StudyOptions, raw, problems, dry_run=dry_run, as_json=as_json)
        return
    options, found = read(StudyOptions, raw)
    raise_if_any(located([*found, *_from_problems(options, dry_run=dry_run)], raw))
    from analysis.report.study_text import study_content

    folders = [Path(folder) for folder in options.folders]
    path = Path(options.out) if options.out else None
    objectives = options.objectives if "objectives" in raw else None
    study = evaluate_studies(folders, path=path, objectives=objectives, strict=True, describe=options.describe)
    if as_json:
        click.echo(json_text(study_content(study)))
    else:
        print_study(study)


@command(ResumeOptions, click.argument("folder", type=click.Path()), DRY_RUN, _JSON)
def resume(raw: Raw, problems: list[str], *, folder: str, dry_run: bool, as_json: bool) -> None:
    """Continue the sweep in FOLDER.

    Finished trials are kept. Unfinished trials continue from their last saved state. If FOLDER is the address of a
    sweep in a bucket (s3://BUCKET/PREFIX/NAME), the sweep's tables are downloaded first.
    """
    from sweeper.store.plugins import restore_plugins
    from trainables.storage import address_problem, is_address, storage_problem

    options, found = read(ResumeOptions, raw, problems)
    changes = _given_changes(options)
    if is_address(folder):
        raise_if_any(located([*found, *about("", address_problem(folder))], raw))
        folder, local_changes = _fetch_tables(folder, out=options.out)
        changes |= local_changes
    elif options.out is not None:
        reason = f"the sweep continues in {folder}; leave out --out, which is only for a sweep in a bucket"
        found += about("out", f"--out {options.out}: {reason}")
    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.store.folder import read_settings  # imports the registries, so the plug-ins must be loaded before

    if changes:
        found += _change_problems(options, out)
    raise_if_any(located(found, raw))
    stored = read_settings(out)
    if "trials" in changes and stored.confirm_trial:
        changes["confirm_trial"] = ""  # more trials may change the answer, which is then confirmed
    storage = changes.get("storage", stored.storage)
    if storage is not None and is_address(storage):
        raise_if_any([problem for problem in [storage_problem(storage)] if problem])
    if dry_run:
        _print_plan(out, changes, as_json=as_json)
        return
    from sweeper.execution.placement import PlacementError

    try:
        run_to_the_end(out, as_json=as_json, changes=changes, retry_failed=options.retry is not None)
    except PlacementError as error:
        raise PlacementError(
            f"{error}; to continue on another cluster, resume with --address ADDRESS; to continue on this machine "
            "alone, resume with --address none"
        ) from None


@command(AttackOptions, click.argument("folder", type=click.Path()), DRY_RUN, _JSON)
def attack(raw: Raw, problems: list[str], *, folder: str, dry_run: bool, as_json: bool) -> None:
    """Attack the stored models of the sweep in FOLDER, and add the results to its tables and report.

    The attacks run on the recommended model, its runners-up, and models on the frontier or near it. For comparison,
    they also run on the target and, if the sweep has a --retain-model, on this model, which never saw the forget set.
    An attack that is already measured does not run again. If the command is interrupted, resume continues it.
    """
    from sweeper.store.plugins import restore_plugins

    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.checks.attacks import AttackPlan, attack_changes
    from sweeper.store.folder import read_settings

    options, found = read(AttackOptions, raw, problems)
    changes, attack_problems = attack_changes(options, out)
    raise_if_any(located([*found, *attack_problems], raw))
    if dry_run:
        from sweeper.checks.plan import slots_of

        settings = replace(read_settings(out), **changes)
        slots, _ = slots_of(settings)
        plan = AttackPlan.of(settings, out, slots=min(slots, settings.max_concurrent or slots))
        lines = "\n  ".join(["dry run of attack: nothing was started", *plan.format()])
        click.echo(json_text(asdict(plan)) if as_json else lines)
        return
    run_to_the_end(out, as_json=as_json, changes=changes, search=False)


@command(ConfirmOptions, click.argument("folder", type=click.Path()), DRY_RUN, _JSON)
def confirm(raw: Raw, problems: list[str], *, folder: str, dry_run: bool, as_json: bool) -> None:
    """Train the configuration of the answer of the sweep in FOLDER again, with K fresh seeds.

    The runs are trials of the same sweep, which end after the epoch of the answer. If the answer does not meet the
    criterion in all runs, up to two runners-up are trained, too, and the first that does becomes the answer. With
    --trial, only the configuration of this trial is trained. If the command is interrupted, resume continues it.
    """
    from sweeper.store.plugins import restore_plugins

    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.checks.confirmation import confirm_plan, confirm_problems
    from sweeper.store.folder import read_settings

    options, found = read(ConfirmOptions, raw, problems)
    changes: dict[str, Any] = {
        "confirm": options.runs,
        "confirm_trial": options.trial or "",
        "confirm_epoch": options.epoch,
    }
    settings = replace(read_settings(out), **changes)
    raise_if_any(located([*found, *confirm_problems(options, settings, out)], raw))
    if dry_run:
        print_confirm_plan(confirm_plan(settings, out), as_json=as_json)
        return
    run_to_the_end(out, as_json=as_json, changes=changes, search=False)


@command(AuditOptions, click.argument("folder", type=click.Path()), DRY_RUN, _JSON)
def audit(raw: Raw, problems: list[str], *, folder: str, dry_run: bool, as_json: bool) -> None:
    """Test which models of the sweep in FOLDER are indistinguishable from models that never saw the forget set.

    The base model is fine-tuned again with the target's recipe: --models N times without the forget set, and N times
    with it. Each evaluated model of the sweep gets two p-values, in the columns ignorance_p and knowledge_p. Fine-tuned
    models are cached. If the command is interrupted, resume continues it.
    """
    from sweeper.store.plugins import restore_plugins

    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.checks.audit import audit_plan, audit_problems, format_plan
    from sweeper.store.folder import read_settings

    options, found = read(AuditOptions, raw, problems)
    changes: dict[str, Any] = {"audit": options.models or 0}
    settings = replace(read_settings(out), **changes)
    raise_if_any(located([*found, *audit_problems(options, settings, out)], raw))
    plan = audit_plan(settings, out)
    lines = [f"out     {out}", *format_plan(plan)]
    if dry_run:
        text = "\n  ".join(["dry run of audit: nothing was started", *lines])
        click.echo(json_text(asdict(plan)) if as_json else text)
        return
    say("\n  ".join(["audit:", *lines]))
    run_to_the_end(out, as_json=as_json, changes=changes, search=False)


def _run_new(options_type: type[SweepOptions], raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    from sweeper.checks.world import resolve_and_check

    resolved = resolve_and_check(options_type, raw, problems)
    settings, out_option = resolved.settings, resolved.options.out
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


def _from_problems(options: StudyOptions, *, dry_run: bool) -> Iterator[Problem]:
    """Yield the problems with the options of ``lr-study --from``."""
    if options.out is None and len(options.folders) > 1:
        yield Problem("--from with several folders needs --out FILE.json for the result")
    if options.out is not None and Path(options.out).is_dir():
        text = "this is a folder; with --from, --out names the JSON file of the result"
        yield Problem(f"--out {options.out}: {text}")
    if dry_run:
        yield Problem("--dry-run has no effect with --from, which runs no trials")
    from sweeper.settings.objectives import ObjectiveError, parse_objectives

    try:
        parse_objectives(options.objectives)
    except ObjectiveError as error:
        yield Problem(str(error), "objectives")
    for name, field in fields_of(StudyOptions).items():
        if name not in _FROM_OPTIONS and options.is_typed(name):
            text = f"{field.flag} is an option of a new study, but --from evaluates finished studies"
            yield Problem(f"{text}: leave out {field.flag}", name)


def _given_changes(options: ResumeOptions) -> dict[str, Any]:
    """Return the settings that the options change, by name."""
    from sweeper.settings.sweep_settings import CHANGEABLE

    values = {name: getattr(options, name) for name in CHANGEABLE}
    changes = {name: value for name, value in values.items() if value is not None and value is not False}
    if options.address == "none":
        changes["address"] = None
    return changes


def _fetch_tables(uri: str, *, out: str | None) -> tuple[str, dict[str, Any]]:
    """Download the tables of the sweep at ``uri``. Return the local folder, and new values for settings.

    The new values replace stored values that are not valid on this machine.
    """
    from sweeper.checks.world import output_problems
    from sweeper.followers.syncer import fetch_sweep
    from sweeper.settings.tracking_uri import absolute_uri, default_uri, sqlite_path
    from sweeper.store.folder import read_settings
    from sweeper.store.lease import other_driver
    from trainables.storage import Storage

    storage = Storage(uri)
    folder = out or str(Path("runs") / storage.name)
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
    from sweeper.store.events import Phase
    from sweeper.store.folder import read_settings

    settings, state = replace(read_settings(out), **changes), read_state(out)
    ended_count = sum(trial.has_result for trial in state.ended_of(Phase.SEARCH))
    plan = plan_of_sweep(settings, out, ended=ended_count, epochs_spent=state.trained_epochs)
    print_plan(plan, as_json=as_json)


def _change_problems(options: ResumeOptions, out: Path) -> Iterator[Problem]:
    from sweeper.execution.placement import address_problem
    from sweeper.settings.until import UntilError, parse_until
    from sweeper.store.event_log import read_state
    from sweeper.store.folder import read_settings

    settings = read_settings(out)
    if options.address != "none":
        yield from about("address", address_problem(options.address))
    if options.extend and settings.kind != STUDY:
        text = f"the sweep in {out} is not a learning-rate study, so it has no grid to extend"
        yield Problem(f"--extend: {text}", "extend")
    trials = options.trials
    ended_count = len(read_state(out).outcomes)
    max_trials = math.inf
    if settings.sampler == "grid":
        max_trials = (len(settings.space.grid()) + len(settings.extension)) * settings.seeds
    if trials is not None and 0 < trials < ended_count:
        text = f"is the new total, but {ended_count} trials have ended: give at least {ended_count}"
        yield Problem(f"--trials {trials} {text}", "trials")
    elif trials is not None and trials > max_trials:
        text = f"the grid of this sweep has only {max_trials} trials; start a new sweep with more values or seeds"
        yield Problem(f"--trials {trials}: {text} and --reuse {out}, which runs only the missing trials", "trials")
    if options.attacks is not None:
        from sweeper.checks.attacks import settings_problems
        from sweeper.settings.search import read_attacks

        _, problems = read_attacks(options.attacks)
        yield from problems or settings_problems(replace(settings, attacks=options.attacks))
    try:
        parse_until(options.until)
    except UntilError as error:
        yield Problem(str(error), "until")
