"""``stop``: ask the process at a sweep, from another terminal, to end a trial or the sweep."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.cli.errors import FAILED, exit_with, plain_errors, refuse

if TYPE_CHECKING:
    from sweeper.followers.status_file import Published

_LOOKS_EVERY = 0.2


@click.command()
@click.argument("folder", type=click.Path())
@click.argument("trial", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON on stdout.")
@plain_errors
def stop(folder: str, trial: str | None, as_json: bool) -> None:
    """Ask the running sweep in FOLDER to end one TRIAL with the epoch it is in, or itself as by Ctrl-C.

    Returns when that has happened; Ctrl-C ends the waiting, not the request. A stopped trial has status 'stopped' and
    the values of its last epoch; a stopped sweep goes on with 'resume'.
    """
    from sweeper.followers.stop_requests import Request, ask

    out = Path(folder)
    running = _running(out, trial)
    ask(out, Request(run=running.run, trial_id=trial))
    what = f"trial {trial} ends with the epoch it is in" if trial else "the sweep ends, with its report"
    click.echo(f"asked: {what}; Ctrl-C ends only the waiting", err=True)
    found = _end_of_trial(out, running.run, trial) if trial else _end_of_sweep(out, running.run)
    if found is None:
        exit_with([f"the sweep in {out} ended before trial {trial} did: it goes on when the sweep is resumed"], FAILED)
        return
    click.echo(json.dumps({"out": str(out), **found}) if as_json else _words(out, found))


def _running(out: Path, trial: str | None) -> Published:
    """The process at the sweep, as it told others.

    Raises:
        UsageError, Problems: it cannot be asked, with a plain sentence.
    """
    from search_spaces.durable import is_held
    from search_spaces.messages import did_you_mean, no_sweep
    from sweeper.followers.status_file import RUNNING, Published
    from sweeper.store.folder import UsageError

    if not (out / "sweep.json").is_file():
        raise UsageError(no_sweep(out))
    row = _row(out, trial) if trial else None
    if row is not None:
        refuse([f"trial {trial} has ended already: {row['status']}"])
    told = Published.read(out)
    if not is_held(out):
        raise UsageError(f"the sweep in {out} is not running: there is nothing to stop")
    if told is None or told.state != RUNNING:
        raise UsageError(f"the sweep in {out} is only just beginning or ending: try again in a moment")
    ids = [*(str(item["trial_id"]) for item in told.running), *told.waiting]
    if trial is not None and trial not in ids:
        near = did_you_mean(trial, ids)
        there = f"running are {', '.join(ids)}" if ids else "no trial runs at the moment"
        refuse([f"trial {trial} is not running: {'; '.join(filter(None, (there, near)))}"])
    return told


def _row(out: Path, trial: str | None) -> dict[str, str] | None:
    from sweeper.store.tables import ResultTables

    return next((row for row in ResultTables(out).trials.read() if row["trial_id"] == trial), None)


def _is_at_it(out: Path, run: str) -> bool:
    from search_spaces.durable import is_held
    from sweeper.followers.status_file import Published

    told = Published.read(out)
    return is_held(out) and (told is None or told.run == run)


def _end_of_trial(out: Path, run: str, trial: str) -> dict[str, Any] | None:
    """How it ended; None where the process at the sweep went before."""
    while True:
        goes_on = _is_at_it(out, run)
        if row := _row(out, trial):
            return {"trial_id": trial, "status": row["status"], "epoch": float(row["epochs_done"] or 0)}
        if not goes_on:
            return None
        time.sleep(_LOOKS_EVERY)


def _end_of_sweep(out: Path, run: str) -> dict[str, Any]:
    from sweeper.followers.status_file import INTERRUPTED, RUNNING, Published

    while _is_at_it(out, run):
        time.sleep(_LOOKS_EVERY)
    told = Published.read(out)
    killed = told is None or (told.run == run and told.state == RUNNING)
    return {"state": INTERRUPTED if told is None or killed else told.state}


def _words(out: Path, found: dict[str, Any]) -> str:
    from search_spaces.messages import resume_command

    if "trial_id" in found:
        return f"trial {found['trial_id']}: {found['status']} after epoch {found['epoch']:g}"
    again = f"; go on with:\n  {resume_command(out)}" if found["state"] == "interrupted" else ""
    return f"the sweep in {out}: {found['state']}{again}"
