"""Run one unlearning run in this process, and write its files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from search_spaces.common.durable import write_json
from search_spaces.common.messages import counted
from sweeper.checks.disk import check_disk, estimate_disk
from sweeper.console import heartbeat, progress_bar
from sweeper.execution.target_task import prepare_with_progress
from sweeper.execution.threads import given_threads, use_free_threads
from sweeper.store.columns import LANDSCAPE_COLUMNS, TRIAL_COLUMNS, unused_columns
from sweeper.store.tables import CsvTable, Row
from sweeper.store.unfinished_run import UnfinishedRun
from trainables.device import default_device
from trainables.models.checkpoints import save_model
from trainables.run.reports import EpochReport, Execution, Outcome, Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.scoring.item_log import write_item_log
from trainables.spec import TrialSpec


def run_once(
    spec: TrialSpec,
    *,
    out: Path | None,
    console: Console,
    started: float,
    landscape_points: int = 0,
    command: str = "the same call",
) -> Row:
    """Run ``spec``. Return the row of the run in the format of trials.csv.

    If ``out`` is given, the run writes these files to ``out``:

    - ``metrics.json``: the returned row. The file trials.csv contains only a header.
    - ``history.csv``: one row for each report.
    - ``auto_lr.csv``: one row for each update of AutoLR.
    - ``landscape.csv``: for each update of AutoLR, the losses at ``landscape_points`` points along the step.
    - ``checkpoint/`` and ``items.json``: the model and the per-item scores of a finished run.

    If ``out`` has an interrupted run of this spec, the run continues. The result is bit-identical to the result of an
    uninterrupted run. ``command`` is the command line with which a user can continue the run.

    Raises:
        OtherRun: ``out`` holds an unfinished run of another spec, or another process is running this run.
    """
    use_free_threads()
    target = prepare_with_progress(spec, console=console)
    spec = replace(spec, target_key=target.key)
    if out is not None:
        disk_message = check_disk(estimate_disk(spec, Path(target.path), models=1, running=1), out)
        console.print(disk_message, soft_wrap=True)
    workspace = Workspace(target, device=default_device())
    run = UnlearningRun(spec, workspace)
    if out is None:
        first_step_at = time.time()
        last_report = list(_reports(run, console))[-1]
        return _row(run, last_report, started_at=started, first_step_at=first_step_at)
    if run.auto_lr is not None:
        run.auto_lr.landscape_points = landscape_points
    unfinished_run = UnfinishedRun(out)
    with unfinished_run.lock():
        epochs = unfinished_run.begin(run, landscape_points=landscape_points, command=command)
        if epochs and given_threads() is None:
            torch.set_num_threads(unfinished_run.threads)
        if epochs:
            console.print(f"continuing after epoch {epochs:g}")
        first_step_at = time.time()
        for report in _reports(run, console):
            unfinished_run.record(run, report)
        if run.auto_lr is not None and run.auto_lr.landscape:
            rows = ({"trial_id": run.spec.spec_hash, **point} for point in run.auto_lr.landscape)
            CsvTable(out / "landscape.csv", LANDSCAPE_COLUMNS).append(rows)
        checkpoint = None
        if report.status is Status.FINISHED:
            save_model(run.model, workspace.processor, out / "checkpoint")
            write_item_log(out / "items.json", run.items)
            checkpoint = "checkpoint"
        row = _row(run, report, started_at=started, first_step_at=first_step_at, checkpoint=checkpoint)
        write_json(out / "metrics.json", row)
        unfinished_run.discard()
    return row


def _reports(run: UnlearningRun, console: Console) -> Iterator[EpochReport]:
    """Yield the reports of the run, and print its progress."""
    spec = run.spec
    losses = ""

    def progress() -> str:
        text = f"{spec.method}, {run.epoch:g} of {counted(spec.epochs, 'epoch')}"
        return f"{text}: {losses}" if losses else text

    with progress_bar(console) as bar, heartbeat(console, progress):
        task = bar.add_task(spec.method, total=spec.epochs)
        bar.update(task, completed=run.epoch)
        for report in run:
            losses = ", ".join(f"{name} {value:.4f}" for name, value in report.losses.items())
            bar.update(task, completed=report.epoch, description=f"{spec.method} {losses}")
            yield report
    fraction = report.training.get("interpolation")
    if fraction is not None:
        if fraction == 1.0:
            position = "has the weights of the last step"
        else:
            position = f"lies {fraction:.0%} of the way from the target to the weights of the last step"
        console.print(f"the model {position} (--interpolate on)", soft_wrap=True)


def _row(
    run: UnlearningRun, report: EpochReport, *, started_at: float, first_step_at: float, checkpoint: str | None = None
) -> Row:
    """Return the row of a run that has just ended. ``report`` is its last report."""
    spec = run.spec
    assert report.status is not None
    wall_seconds = time.time() - started_at
    execution = Execution(started_at=started_at, first_step_at=first_step_at, wall_seconds=wall_seconds)
    outcome = Outcome.after(report, status=report.status, checkpoint=checkpoint, execution=execution)
    values = {"trial_id": spec.spec_hash, "spec_hash": spec.spec_hash, **spec.row(), **outcome.row()}
    unused_names = unused_columns([spec.method], spec.metrics)
    return {column: values.get(column) for column in TRIAL_COLUMNS if column not in unused_names}
