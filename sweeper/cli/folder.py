"""The commands that work on the folder of a sweep: ``status``, ``stop`` and ``config``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from search_spaces.common.messages import did_you_mean, no_sweep, resume_command
from search_spaces.common.values import json_text
from sweeper.cli.errors import FAILED, exit_with, plain_errors
from sweeper.cli.options import command, json_option
from sweeper.settings.options import ConfigOptions
from sweeper.settings.reading import read_valid
from sweeper.settings.sources import Problems, Raw

if TYPE_CHECKING:
    from sweeper.driver.status_file import StatusFile
    from sweeper.settings.sweep_settings import SweepSettings

_POLL_SECONDS = 0.2


@click.command()
@click.argument("folder", type=click.Path())
@json_option("Print the status as JSON on stdout.")
@plain_errors
def status(folder: str, as_json: bool) -> None:
    """Print the status of the sweep in FOLDER, while the sweep runs or after it ended. No file is changed."""
    from sweeper.cli.status import format_status, read_status

    status = read_status(Path(folder))
    click.echo(json_text(status.to_dict()) if as_json else "\n".join(format_status(status)))


@click.command()
@click.argument("folder", type=click.Path())
@click.argument("trial", required=False)
@json_option()
@plain_errors
def stop(folder: str, trial: str | None, as_json: bool) -> None:
    """Stop the running sweep in FOLDER, or only one of its trials.

    Without TRIAL, the sweep stops as after Ctrl-C. A trial stops after its current epoch. The command waits until the
    trial or the sweep has stopped. Ctrl-C ends the wait but does not cancel the request. A stopped trial has the status
    'stopped' and the metrics of its last epoch. 'resume' continues a stopped sweep.
    """
    from sweeper.driver.stop_requests import request_stop

    out = Path(folder)
    run_id = _running_sweep(out, trial).run
    request_stop(out, run_id, trial)
    effect = f"trial {trial} stops after its current epoch" if trial else "the sweep stops and writes its report"
    click.echo(f"requested: {effect}; Ctrl-C ends this command, but does not cancel the request", err=True)
    while _is_still_running(out, run_id):
        if trial and _trial_row(out, trial):
            break
        time.sleep(_POLL_SECONDS)
    result: dict[str, object]
    if trial is None:
        from sweeper.cli.status import read_status

        state = read_status(out).state
        result = {"state": state}
        text = f"the sweep in {out}: {state}"
        if state == "interrupted":
            text += f"; continue with:\n  {resume_command(out)}"
    elif row := _trial_row(out, trial):
        epoch = float(row["epochs_done"] or 0)
        result = {"trial_id": trial, "status": row["status"], "epoch": epoch}
        text = f"trial {trial}: {row['status']} after epoch {epoch:g}"
    else:
        exit_with(
            [f"the sweep in {out} ended before trial {trial} stopped; if you resume the sweep, the trial continues"],
            FAILED,
        )
    click.echo(json_text({"out": str(out), **result}) if as_json else text)


def _running_sweep(out: Path, trial: str | None) -> StatusFile:
    """Return the status file of a running sweep. Raise an error if the sweep or the trial is not running."""
    from search_spaces.common.durable import is_locked
    from sweeper.driver.status_file import RUNNING, TARGET, StatusFile
    from sweeper.store.event_log import read_state
    from sweeper.store.folder import UsageError
    from sweeper.store.state import Stage

    if not (out / "sweep.json").is_file():
        raise UsageError(no_sweep(out))
    if row := _trial_row(out, trial):
        raise Problems([f"trial {trial} has ended already: {row['status']}"])
    status_file = StatusFile.read(out)
    if not is_locked(out):
        raise UsageError(f"the sweep in {out} is not running: there is nothing to stop")
    is_starting = trial is not None and status_file is not None and status_file.doing == TARGET
    if status_file is None or status_file.state != RUNNING or is_starting:
        raise UsageError(
            f"the sweep in {out} is starting or ending, so it accepts no request now: try again in a moment"
        )
    running_ids = [item.id for item in read_state(out).trials.values() if item.stage in (Stage.RUNNING, Stage.PAUSED)]
    if trial is not None and trial not in running_ids:
        reason = f"the running trials are {', '.join(running_ids)}" if running_ids else "no trial runs at the moment"
        if suggestion := did_you_mean(trial, running_ids):
            reason += f"; {suggestion}"
        raise Problems([f"trial {trial} is not running: {reason}"])
    return status_file


def _trial_row(out: Path, trial: str | None) -> dict[str, str] | None:
    from sweeper.store.tables import ResultTables

    return next((row for row in ResultTables(out).trials.read() if row["trial_id"] == trial), None)


def _is_still_running(out: Path, run_id: str) -> bool:
    from search_spaces.common.durable import is_locked
    from sweeper.driver.status_file import StatusFile

    status_file = StatusFile.read(out)
    return is_locked(out) and (status_file is None or status_file.run == run_id)


@command(ConfigOptions, click.argument("folder", type=click.Path()))
def config(raw: Raw, problems: list[str], *, folder: str) -> None:
    """Print the options of the sweep in FOLDER as YAML. To start the same sweep, give the YAML file with --config.

    The file contains the options that were given when the sweep was started or resumed. Its paths are absolute, and its
    plug-ins are the copies in FOLDER. Other options have their defaults, which may differ in another version of this
    project.
    """
    out = read_valid(ConfigOptions, raw, problems).out
    if out is not None and Path(out).exists():
        raise Problems([f"--out {out}: the file exists already; name a new file"])
    from sweeper.store.plugins import FOLDER, restore_plugins

    restore_plugins(Path(folder))
    from search_spaces.common.durable import write_atomically
    from sweeper.store.folder import read_settings
    from trainables.plugins import active

    plugin_files = {item.name: str((Path(folder) / FOLDER / item.name).resolve()) for item in active()}
    settings = read_settings(Path(folder))
    text = config_text(settings, plugins=plugin_files)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_atomically(Path(out), text)
        click.echo(out)


def config_text(settings: SweepSettings, *, plugins: Mapping[str, str]) -> str:
    """Return the sweep's options as YAML. ``plugins`` maps the name of each plug-in file to the path of its copy."""
    from sweeper.settings.options import COMMANDS
    from sweeper.settings.sources import STORED, Given, to_config
    from sweeper.settings.sweep_settings import CHANGEABLE
    from sweeper.store.plugins import plugin_options

    # Values that resume may have changed, and defaults that were computed when the sweep started.
    values = {name: getattr(settings, name) or None for name in (*CHANGEABLE, "storage", "sampler")}
    if settings.address is None:
        values["no_ship"] = None
    if "tracking_uri" in settings.given:
        values["tracking_uri"] = settings.tracking_uri
    overrides = {name: [] if value is None else [Given(value, STORED)] for name, value in values.items()}
    for name, files in plugin_options(plugins).items():
        if files:
            overrides[name] = [Given(value, STORED) for value in files]
    return to_config(COMMANDS[settings.kind], {**settings.given, **overrides})
