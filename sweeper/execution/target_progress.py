"""The target and the retain model with a progress bar around their making."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from analysis.words import duration
from search_spaces.phases import phase
from trainables.metrics.registry import primary_metrics
from trainables.spec import TrialSpec
from trainables.target.finetune import Progress as TargetProgress
from trainables.target.prepare import make_retain_model, prepare_target
from trainables.target.retain_model import RETAIN
from trainables.target.target import Target
from trainables.target.training import WAITING

Show = Callable[[TargetProgress], None]
HEARTBEAT = 30.0
"""Seconds between two signs of life in a log."""


def prepare_with_progress(
    spec: TrialSpec, *, console: Console, elsewhere: Callable[[TrialSpec, Show], None] = lambda spec, show: None
) -> Target:
    """:func:`prepare_target`, its epochs shown on ``console`` (a line at start and end where there is no terminal).

    So is the retain model's training, where a metric needs one. ``elsewhere`` may have what it needs made before.
    """
    with phase("target: check, train, score"), shown(spec, console) as (show, seen):
        elsewhere(spec, show)
        target = prepare_target(spec, on_progress=show)
    say_what_is_left_out(target.left_out, console)
    if progress := seen.get("target"):
        names = ("forget_loss", "retain_loss", *primary_metrics(target.data.modality))
        scores = ", ".join(f"{name} {target.baseline[name]:.3f}" for name in names if name in target.baseline)
        console.print(f"target {spec.model}: {progress.text}; {scores}; cached", highlight=False, soft_wrap=True)
    return target


def retain_model_with_progress(spec: TrialSpec, *, console: Console) -> Path:
    """:func:`make_retain_model`, shown in the same way."""
    with shown(spec, console) as (show, _):
        return make_retain_model(spec, on_progress=show)


@contextmanager
def heartbeat(console: Console, words: Callable[[], str]) -> Iterator[None]:
    """Where no terminal shows a bar, a line every half minute: a log must tell what is slow from what hangs."""
    if console.is_terminal:
        yield
        return
    over, began = threading.Event(), time.monotonic()

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            told = f"... {words()}, {duration(time.monotonic() - began)}"
            console.print(told, highlight=False, markup=False, soft_wrap=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def progress_bar(console: Console) -> Progress:
    """A bar with words before it, gone at its end; nothing where there is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def say_what_is_left_out(names: Sequence[str], console: Console) -> None:
    """A line on metrics, of the sets asked for, that only a retain model would give; no line where there are none."""
    if names:
        console.print(
            f"left out for want of a retain model: {', '.join(names)}; give one with --retain-model DIR "
            "('python -m sweeper target --retain-only --out DIR' makes it)",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


@contextmanager
def shown(
    spec: TrialSpec, console: Console, *, first: str = "loading the target"
) -> Iterator[tuple[Show, dict[str, TargetProgress]]]:
    """What is to be called with progress, and the last that was told of each model in training.

    ``first`` says what is done before anything is told.
    """
    seen: dict[str, TargetProgress] = {}
    now = first
    with progress_bar(console) as bar, heartbeat(console, lambda: now):
        task = bar.add_task(first, total=None)

        def show(progress: TargetProgress) -> None:
            nonlocal now
            retain = progress.text.startswith(RETAIN)
            what = "retain model" if retain else "target"
            if progress.text.endswith(WAITING):
                now = f"{what}: {WAITING}"
                bar.update(task, description=now)
                console.print(now, highlight=False)
                return
            if what not in seen and not console.is_terminal:
                data = f"the retain set of {spec.dataset}" if retain else spec.dataset
                console.print(f"fine-tuning the {what} {spec.model} on {data}", highlight=False)
            seen[what] = progress
            text = progress.text if retain else f"target {progress.text}"
            now = f"{text} (step {progress.done} of {progress.total})"
            bar.update(task, completed=progress.done, total=progress.total, description=text)

        yield show, seen
    if progress := seen.get("retain model"):
        console.print(f"{progress.text}; cached", highlight=False)
