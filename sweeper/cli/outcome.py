"""Run a sweep to its end and print the outcome."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from search_spaces.messages import counted, resume_command
from sweeper.cli.errors import FAILED, INTERRUPTED, say

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.study.lr_study import LrStudy
    from analysis.tables.trade_off import Objective
    from analysis.words import DataTable
    from sweeper.driver.finalize import Summary

_STATUS_TEXTS = {"stopped": "stopped early"}


def run_to_the_end(
    out: Path, *, as_json: bool, changes: Mapping[str, Any] | None = None, retry_failed: bool = False
) -> None:
    """Run a sweep and print its outcome. If the sweep is interrupted, print the command that resumes it.

    ``changes`` maps names of settings to values that replace the stored values.
    """
    from sweeper.store.plugins import restore_plugins

    for line in restore_plugins(out):  # before any registry is read
        say(line)

    from sweeper.followers.console import own_console
    from sweeper.settings.fields import STUDY
    from sweeper.settings.tracking_uri import redact_uri, uri_with_password
    from sweeper.store.folder import read_settings
    from sweeper.sweep import run

    settings = read_settings(out)
    is_study = settings.kind == STUDY
    tracking = {"tracking_uri": (changes or {}).get("tracking_uri", uri_with_password(settings.tracking_uri))}
    if "@" in settings.tracking_uri and tracking["tracking_uri"] == settings.tracking_uri:
        say(
            f"passwords are not stored; if MLflow at {redact_uri(settings.tracking_uri)} needs a password, set "
            "MLFLOW_TRACKING_URI to the address with the password"
        )

    def run_all() -> Summary:
        updates = {**(changes or {}), **tracking}
        summary = run(out, console=own_console(), changes=updates, retry_failed=retry_failed, end_process=end_process)
        while is_study and (extension := _extension(out)):
            summary = run(out, console=own_console(), changes={**extension, **tracking}, end_process=end_process)
        return summary

    stdout = sys.stdout  # saved because stdout is redirected while Ray runs

    def end_process(get_summary: Callable[[], Summary]) -> None:
        code = FAILED
        try:
            with contextlib.redirect_stdout(stdout):
                code = _print_outcome(get_summary, out, is_study=is_study, as_json=as_json)
        except Exception as error:
            say(f"error: {error}")
        finally:
            stdout.flush()
            os._exit(code)  # a normal exit would wait for Ray's lost head node

    if code := _print_outcome(run_all, out, is_study=is_study, as_json=as_json):
        sys.exit(code)


def _print_outcome(get_summary: Callable[[], Summary], out: Path, *, is_study: bool, as_json: bool) -> int:
    from analysis.report.study_text import study_content
    from sweeper.execution.shutdown import Interrupted

    try:
        summary = get_summary()
    except Interrupted:
        say(f"interrupted; all finished trials are kept. Continue with:\n  {resume_command(out)}")
        if as_json:
            click.echo(json.dumps({"out": str(out), "interrupted": True}))
        return INTERRUPTED
    study = evaluate_studies([out]) if is_study else None
    if as_json:
        click.echo(json.dumps(asdict(summary) | ({"lr_study": study_content(study)} if study else {})))
    else:
        click.echo("\n".join(summary_lines(summary)))
        if study is not None:
            print_study(study)
    is_incomplete = summary.run_again or (summary.unmeasured and summary.ended_because)
    return FAILED if summary.status.get("failed", 0) == summary.trials or is_incomplete else 0


def summary_lines(summary: Summary) -> list[str]:
    status = ", ".join(f"{count} {_STATUS_TEXTS.get(name, name)}" for name, count in summary.status.items())
    trials, requested, out = counted(summary.trials, "trial"), counted(summary.asked, "trial"), summary.out
    lines = [f"{trials}: {status}" if summary.trials else "no trial ended"]
    if summary.repeated:
        lines.append(f"{summary.repeated} of them repeat other trials of this sweep, so their results were copied")
    if summary.reused:
        lines.append(f"{summary.reused} of them did not run, because their results were copied from previous sweeps")
    lines += filter(None, _answer_lines(summary.answer or {}, Path(out)))
    if summary.hypervolume is None:
        lines.append("no frontier")
    else:
        frontier = counted(summary.front, "trial")
        if summary.front_trials != summary.front:
            frontier = f"{counted(summary.front, 'epoch')} of {counted(summary.front_trials, 'trial')}"
        lines.append(f"frontier: {frontier}, hypervolume {summary.hypervolume:.4f}")
    lines.append(f"report: {out}/report.html")
    if summary.tracking:
        lines.append(f"MLflow: {summary.tracking}")
    if summary.run_again:
        failed = counted(summary.run_again, "trial")
        lines.append(f"no result for {failed}, because a disk, memory or a node failed; resume runs these trials again")
    if summary.unmeasured:
        reason = f" ({summary.ended_because})" if summary.ended_because else ""
        missing = counted(summary.unmeasured, "epoch")
        lines.append(f"metrics are missing for {missing} on the frontier{reason}; resume measures these metrics")
    command = f"  {resume_command(out)} {summary.further}".rstrip()
    if summary.trials < summary.asked and summary.ended_because:
        missing = f"{summary.asked - summary.trials} of {requested}"
        lines += [f"{missing} did not run because of {summary.ended_because}; continue with:", command]
    elif summary.run_again or summary.unmeasured:
        lines += ["after fixing the cause, continue with:", command]
    elif not summary.status.get("finished"):
        advice = "; a lower learning rate (--lr) may prevent divergence" if summary.status.get("diverged") else ""
        lines.append(f"no trial finished: see the column 'error' of trials.csv{advice}")
    return lines


def _answer_lines(answer: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield lines on the recommended model or, if there is none, on the model closest to the thresholds."""
    yield answer.get("headline", "")
    if trial_id := answer.get("trial_id"):
        checkpoint = f"checkpoint: {out / answer['checkpoint']}" if answer.get("checkpoint") else "no checkpoint"
        epoch = "" if answer.get("epoch") is None else f" after epoch {answer['epoch']:g}"
        yield checkpoint if answer.get("recommended") else f"closest model: trial {trial_id}{epoch} ({checkpoint})"
    yield from (answer.get("advice", ""), *answer.get("judged", ()))


def evaluate_studies(folders: Sequence[Path], *, path: Path | None = None, objectives: str | None = None) -> LrStudy:
    """Evaluate finished learning-rate studies as one study, and write the result to a JSON file and a CSV file.

    Args:
                path: the path of the JSON file; by default, lr_study.json in the first folder.
        objectives: the objectives of the evaluation, such as ``verbmem:min,utility:max``; by default, the objectives of
            the studies.
    """
    from analysis.report.study_text import write_study
    from analysis.study.lr_study import read_study
    from analysis.tables.sweep_file import SweepFile
    from sweeper.settings.objectives import parse_objectives, with_bounds
    from trainables.modality import dataset_modality

    parsed_objectives: tuple[Objective, ...] = ()
    if objectives:
        sweep = SweepFile.read(folders[0])
        base = sweep.settings.get("base") or {}
        unit = dataset_modality(str(base.get("dataset"))).unit
        parsed_objectives = with_bounds(parse_objectives(objectives), sweep.random_guess_loss or 0.0, unit=unit)
    study = read_study(folders, parsed_objectives)
    write_study(path or folders[0] / "lr_study.json", study)
    return study


def _extension(out: Path) -> dict[str, Any]:
    """Print the rates that ``--extend`` adds to a study. Return the settings that change; {} if no rate is added."""
    from sweeper.search.lr_extension import extended_settings, extensions, format_extensions
    from sweeper.store.folder import read_settings
    from sweeper.store.tables import ResultTables

    settings = read_settings(out)
    if not settings.extend or len(ResultTables(out).trials.read()) < settings.trials:
        return {}
    grid_extensions = extensions(evaluate_studies([out]), settings)
    for line in format_extensions(grid_extensions):
        click.echo(line, err=True)
    return extended_settings(settings, grid_extensions) if any(extension.rates for extension in grid_extensions) else {}


def print_study(study: LrStudy) -> None:
    """Print the tables and the verdicts of a learning-rate study."""
    from rich.console import Console

    from analysis.report.render import note_text
    from analysis.report.study_text import (
        arms_table,
        rates_table,
        sensitivity_line,
        study_cautions,
        study_lines,
        verdict_lines,
    )

    # In a file or a pipe, print no colour codes and wrap no lines.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print("\n".join([*study_lines(study), *study_cautions(study)]), end="\n\n")
    for sensitivity in study.sensitivity:
        _print_table(console, rates_table(sensitivity, study.grid.columns))
        console.print(sensitivity_line(sensitivity), end="\n\n")
    for fronts in study.fronts:
        _print_table(console, arms_table(fronts))
        console.print()
    for verdict in study.verdicts:
        for line in verdict_lines(verdict):
            console.print(f"- {line}")
    for note in study.notes:
        console.print(f"note: {note_text(note)}")


def _print_table(console: Console, data: DataTable) -> None:
    from rich.table import Table

    table = Table(title=data.caption, title_justify="left")
    for index, name in enumerate(data.columns):
        table.add_column(name, justify="right" if index else "left", no_wrap=not index)
    for row in data.rows:
        table.add_row(*row)
    console.print(table)
