"""The target with a progress bar around it, and the models and data checked before anything is loaded."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from trainables.finetune import Progress as TargetProgress
from trainables.spec import TrialSpec
from trainables.target import Target, prepare_target


def prepare_with_progress(spec: TrialSpec, *, console: Console) -> Target:
    """:func:`prepare_target`, its epochs shown on ``console`` (a line at start and end where there is no terminal)."""
    columns = (TextColumn("target {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading", total=None)
        last: list[TargetProgress] = []

        def show(progress: TargetProgress) -> None:
            if not last and not console.is_terminal:
                console.print(f"fine-tuning the target {spec.model} on {spec.dataset}", highlight=False)
            last.append(progress)
            bar.update(task, completed=progress.done, total=progress.total, description=progress.text)

        target = prepare_target(spec, on_progress=show)
    if last:
        shown = ("forget_loss", "retain_loss", "verbmem", "forget_accuracy", "retain_accuracy")
        scores = ", ".join(f"{name} {target.baseline[name]:.3f}" for name in shown if name in target.baseline)
        console.print(f"target {spec.model}: {last[-1].text}; {scores}; cached", highlight=False)
    return target
