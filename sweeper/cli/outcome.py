"""Run a sweep to its end and print the outcome."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from search_spaces.common.messages import counted, resume_command
from search_spaces.common.values import json_text
from sweeper.cli.errors import FAILED, INTERRUPTED, say
from sweeper.settings.sources import raise_if_any

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.study.lr_study import LrStudy
    from analysis.words import DataTable
    from search_spaces.common.objective import Objective
    from sweeper.driver.finalize import Summary
    from sweeper.store.events import Merge

_STATUS_TEXTS = {"stopped": "stopped early"}


def run_to_the_end(
    out: Path,
    *,
    as_json: bool,
    changes: Mapping[str, Any] | None = None,
    retry_failed: bool = False,
    search: bool = True,
    merge: Merge | None = None,
) -> None:
    """Run a sweep and print its outcome. If the sweep is interrupted, print the command that resumes it.

    ``changes`` maps names of settings to values that replace the stored values. If ``search`` is false, no trial of the
    search runs. ``merge`` is a model to merge from models of the sweep.
    """
    from sweeper.store.plugins import restore_plugins

    for line in restore_plugins(out):  # before any registry is read
        say(line)

    from sweeper.console import own_console
    from sweeper.settings.names import STUDY
    from sweeper.settings.tracking_uri import redact_uri, uri_with_password
    from sweeper.store.folder import read_settings
    from sweeper.sweep import run

    settings = read_settings(out)
    is_study = settings.kind == STUDY
    changed_settings = dict(changes or {})
    tracking_uri = changed_settings.get("tracking_uri", uri_with_password(settings.tracking_uri))
    if "@" in settings.tracking_uri and tracking_uri == settings.tracking_uri:
        say(
            f"passwords are not stored; if MLflow at {redact_uri(settings.tracking_uri)} needs a password, set "
            "MLFLOW_TRACKING_URI to the address with the password"
        )

    def run_all() -> Summary:
        updates = changed_settings | {"tracking_uri": tracking_uri}
        summary = run(
            out,
            console=own_console(),
            changes=updates,
            retry_failed=retry_failed,
            search=search,
            merge=merge,
            end_process=end_process,
        )
        while search and is_study and (extension := _extension(out)):
            updates = extension | {"tracking_uri": tracking_uri}
            summary = run(out, console=own_console(), changes=updates, end_process=end_process)
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
    from analysis.report.audit import stored_verdict
    from analysis.report.study_text import study_content
    from sweeper.execution.shutdown import Interrupted

    try:
        summary = get_summary()
    except Interrupted:
        say(f"interrupted; all finished trials are kept. Continue with:\n  {resume_command(out)}")
        if as_json:
            click.echo(json_text({"out": str(out), "interrupted": True}))
        return INTERRUPTED
    study = evaluate_studies([out]) if is_study else None
    if as_json:
        content = asdict(summary)
        if study is not None:
            content["lr_study"] = study_content(study)
        click.echo(json_text(content))
    else:
        click.echo("\n".join(summary_lines(summary)))
        for line in stored_verdict(out):
            click.echo(f"audit: {line}")
        if study is not None:
            print_study(study)
    all_failed = summary.status.get("failed", 0) == summary.trials
    return FAILED if all_failed or summary.is_incomplete else 0


def summary_lines(summary: Summary) -> list[str]:
    status = ", ".join(f"{count} {_STATUS_TEXTS.get(name, name)}" for name, count in summary.status.items())
    lines = [f"{counted(summary.trials, 'trial')}: {status}" if summary.trials else "no trial ended"]
    if summary.reused:
        lines.append(f"{summary.reused} of them did not run, because their results were copied from previous sweeps")
    lines += [line for line in _answer_lines(summary.answer or {}, Path(summary.out)) if line]
    lines += _fresh_run_lines(summary)
    lines.append(_frontier_line(summary))
    lines.append(f"report: {summary.out}/report.html")
    if summary.tracking:
        lines.append(f"MLflow: {summary.tracking}")
    if summary.run_again:
        failed = counted(summary.run_again, "trial")
        lines.append(f"no result for {failed}, because a disk, memory or a node failed; resume runs these trials again")
    if summary.unmeasured:
        reason = f" ({summary.ended_because})" if summary.ended_because else ""
        models = counted(summary.unmeasured, "stored model")
        lines.append(f"metrics or attacks are not measured for {models}{reason}; resume measures the missing values")
    return lines + _next_step_lines(summary)


def _frontier_line(summary: Summary) -> str:
    if summary.hypervolume is None:
        return "no frontier"
    trials = counted(summary.front_trials, "trial")
    has_one_epoch_per_trial = summary.front == summary.front_trials
    members = trials if has_one_epoch_per_trial else f"{counted(summary.front, 'epoch')} of {trials}"
    return f"frontier: {members}, hypervolume {summary.hypervolume:.4f}"


def _fresh_run_lines(summary: Summary) -> Iterator[str]:
    """Yield a line for each confirmed model besides the answer, and lines on fresh runs that did not start."""
    answer = summary.answer or {}
    for item in summary.fresh_runs:
        if (item["trial_id"], item["epoch"]) != (answer.get("trial_id"), answer.get("epoch")):
            runs = counted(item["runs"], "fresh run")
            model = f"trial {item['trial_id']} after epoch {item['epoch']:g}"
            yield f"the configuration of {model} meets the criterion in {item['met']} of {runs}"
    if summary.unconfirmed:
        yield f"{summary.unconfirmed}; start them with:"
        yield f"  python -m sweeper confirm {shlex.quote(summary.out)}"


def _next_step_lines(summary: Summary) -> list[str]:
    command = f"  {resume_command(summary.out)} {summary.further or ''}".rstrip()
    if summary.trials < summary.asked and summary.ended_because:
        trials = f"{summary.asked - summary.trials} of {counted(summary.asked, 'trial')}"
        sentence = f"{trials} did not run because of {summary.ended_because}"
        return [sentence] if summary.further is None else [f"{sentence}; continue with:", command]
    if summary.run_again or summary.unmeasured:
        return ["after fixing the cause, continue with:", command]
    if summary.status.get("finished"):
        return []
    advice = "; a lower learning rate (--lr) may prevent divergence" if summary.status.get("diverged") else ""
    return [f"no trial finished: see the column 'error' of trials.csv{advice}"]


def _answer_lines(answer: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield lines on the recommended model or, if there is none, on the model closest to the thresholds."""
    yield answer.get("headline", "")
    if trial_id := answer.get("trial_id"):
        checkpoint = f"checkpoint: {out / answer['checkpoint']}" if answer.get("checkpoint") else "no checkpoint"
        epoch = "" if answer.get("epoch") is None else f" after epoch {answer['epoch']:g}"
        yield checkpoint if answer.get("recommended") else f"closest model: trial {trial_id}{epoch} ({checkpoint})"
    yield answer.get("advice", "")
    yield from answer.get("judged", ())


def evaluate_studies(
    folders: Sequence[Path],
    *,
    path: Path | None = None,
    objectives: str | None = None,
    strict: bool = False,
    describe: bool = False,
) -> LrStudy:
    """Evaluate finished learning-rate studies as one study, and write the result to a JSON file and a CSV file.

    Args:
        path: the path of the JSON file; by default, lr_study.json in the first folder.
        objectives: the objectives of the evaluation, such as ``verbmem:min,utility:max``; by default, the objectives of
            the studies.
        strict: whether to refuse a study that cannot answer its question (:func:`study_problems`).
        describe: with ``strict``, whether to accept a study with too few seeds.

    Raises:
        Problems: ``strict`` is true and the study is refused.
    """
    from analysis.report.study_text import study_problems, write_study
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
    if strict:
        raise_if_any([f"--from: {problem}" for problem in study_problems(study, describe=describe)])
    write_study(path or folders[0] / "lr_study.json", study)
    return study


def _extension(out: Path) -> dict[str, Any]:
    """Print the rates that ``--extend`` adds to a study. Return the settings that change; {} if no rate is added."""
    from sweeper.search.lr_extension import extended_settings, extensions, format_extensions
    from sweeper.store.folder import read_settings
    from sweeper.store.tables import ResultTables

    settings = read_settings(out)
    searched = [row for row in ResultTables(out).trials.read() if row.get("phase") in (None, "", "search")]
    if not settings.extend or len(searched) < settings.trials:
        return {}
    grid_extensions = extensions(evaluate_studies([out]), settings)
    for line in format_extensions(grid_extensions):
        click.echo(line, err=True)
    has_new_rates = any(extension.rates for extension in grid_extensions)
    return extended_settings(settings, grid_extensions) if has_new_rates else {}


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
        verdicts_table,
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
    if study.verdicts:
        _print_table(console, verdicts_table(study))
        console.print()
    for verdict in study.verdicts:
        for line in verdict_lines(verdict)[2:]:  # the first two lines are printed above
            console.print(f"- {verdict.method}, {verdict.variant}: {line}")
    for note in study.notes:
        console.print(f"note: {note_text(note)}")


def _print_table(console: Console, data: DataTable) -> None:
    from rich.table import Table

    table = Table(title=data.caption, title_justify="left")
    for index, name in enumerate(data.columns):
        is_first = index == 0
        table.add_column(name, justify="left" if is_first else "right", no_wrap=is_first)
    for row in data.rows:
        table.add_row(*row)
    console.print(table)
