"""What a person sees while a sweep runs: a live table in a terminal, a line per finished trial anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from search_spaces.messages import counted
from sweeper.followers.progress import Course
from sweeper.followers.progress_bar import heartbeat

_ROWS = 12
_HERTZ = 4.0


class Display:
    """Progress on stderr; ``close`` leaves the last state standing. ``scores`` are the metrics beside the losses,
    ``course`` has the totals of the trials that ended before, ``idle`` says why nothing runs."""

    def __init__(
        self, console: Console, *, trials: int, done: int, scores: Sequence[str] = (), course: Course | None = None
    ) -> None:
        self._console = console
        self._scores = tuple(scores)
        self.course = course or Course()
        self.doing = "trials"
        self.idle = ""
        self.asked = trials
        self._running: dict[str, dict[str, Any]] = {}
        self._ended: list[dict[str, Any]] = []
        self._paused: set[str] = set()
        self._stopped, self._epochs_saved = 0, 0.0
        self._progress = Progress(
            *(TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            *(TextColumn("{task.fields[left]}"), TextColumn("{task.fields[front]}")),
        )
        self._task = self._progress.add_task("trials", total=trials, completed=done, left="", front="")
        self._drawn = 0.0
        self._live = Live(self._render(), console=console, auto_refresh=False) if console.is_terminal else None
        self._open = ExitStack()
        if self._live is not None:
            self._live.start()
        else:
            self._open.enter_context(heartbeat(console, self._words))

    def started(self, trial_id: str, row: Mapping[str, Any]) -> None:
        """A trial begins, or goes on."""
        self._paused.discard(trial_id)
        self._running[trial_id] = {"trial_id": trial_id, **row, "status": "running", "since": time.time()}

    def reported(self, trial_id: str, report: Mapping[str, Any]) -> None:
        """A trial reports an epoch."""
        if trial_id in self._running:
            self._running[trial_id] |= {name: report.get(name) for name in ("epoch", "forget_loss", "retain_loss")}

    def front(self, epochs: int) -> None:
        """So many epochs are on the frontier."""
        self._progress.update(self._task, front=f"{counted(epochs, 'epoch')} on the frontier")

    def attained(self, hypervolume: float) -> None:
        """The front dominates this share of the objectives' box."""
        self.course.hypervolume = hypervolume

    def warned(self, text: str) -> None:
        """Something went wrong that does not end the sweep."""
        self.course.warned(text)

    def note(self, text: str) -> None:
        """What stands at the end of the line of progress, and is done now where it is not trials."""
        self.doing = text
        self._progress.update(self._task, front=text)

    @property
    def running(self) -> list[dict[str, Any]]:
        """Of each trial on a worker what it was asked to do, its last epoch, and ``since`` when it runs."""
        return list(self._running.values())

    @property
    def waiting(self) -> list[str]:
        """The trials that wait for their rank to allow them to go on."""
        return list(self._paused)

    def left(self, words: str) -> None:
        """An estimate of what is left."""
        self._progress.update(self._task, left=f"left: {words}")

    def paused(self, trial_id: str) -> None:
        """A trial waits for its rank to allow it to go on."""
        self._running.pop(trial_id, None)
        self._paused.add(trial_id)

    def ended(self, trial_id: str, row: Mapping[str, Any]) -> None:
        """A trial is over."""
        self._running.pop(trial_id, None)
        self._paused.discard(trial_id)
        self._ended.append(dict(row))
        self.course.ended(row)
        if row["status"] == "failed":
            self.warned(f"trial {trial_id} failed: {row.get('error') or 'no reason was recorded'}")
        early = ""
        if row["status"] == "stopped":
            done, asked = float(row.get("epochs_done") or 0.0), float(row.get("epochs") or 0.0)
            self._stopped, self._epochs_saved = self._stopped + 1, self._epochs_saved + asked - done
            early = f"  after {done:g} of {counted(asked, 'epoch')}"
        self._progress.advance(self._task)
        if self._live is None:
            shown = {"forget": "forget_loss", "retain": "retain_loss"} | {name: name for name in self._scores}
            scores = " ".join(f"{word} {_number(row.get(name))}" for word, name in shown.items())
            error = f"  {row['error']}" if row.get("error") else ""
            line = f"{trial_id} {row['status']:<8} {describe(row):<32} {scores} {_number(row.get('wall_seconds'))} s"
            self._console.print(line + early + error, highlight=False, markup=False, soft_wrap=True)

    def refresh(self) -> None:
        """Redraw, at most four times a second."""
        now = time.monotonic()
        if self._live is not None and now - self._drawn >= 1.0 / _HERTZ:
            self._drawn = now
            self._live.update(self._render(), refresh=True)

    def close(self) -> None:
        """Draw the last state and stop."""
        self._open.close()
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
            self._live.stop()
            self._live = None

    def _words(self) -> str:
        """How far the sweep is, in a line."""
        task = self._progress.tasks[0]
        running = [
            row["trial_id"] + (f" at epoch {_number(row['epoch'])}" if "epoch" in row else "")
            for row in [*self._running.values()]
        ]
        parts = (
            f"{task.completed:g} of {counted(task.total or 0, 'trial')} done",
            f"running {', '.join(running)}" if running else self.idle,
            str(task.fields["front"]),
            self._hypervolume(),
            "" if task.finished else str(task.fields["left"]),
        )
        return "; ".join(filter(None, parts))

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "method", "status"):
            table.add_column(name, no_wrap=True)
        for name in ("epoch", "forget loss", "retain loss", *self._scores):
            table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
        running = list(self._running.values())
        rows = max(4, min(_ROWS, self._console.height - 7))
        for row in [*self._ended[-max(1, rows - len(running)) :], *running]:
            table.add_row(
                str(row["trial_id"]),
                describe(row),
                str(row["status"]),
                _number(row.get("epochs_done", row.get("epoch"))),
                *(_number(row.get(name)) for name in ("forget_loss", "retain_loss", *self._scores)),
            )
        lines = (Text(line, no_wrap=True, overflow="ellipsis") for line in self._words_of_the_whole())
        return Group(table, *lines, self._progress)

    def _words_of_the_whole(self) -> Iterator[str]:
        """A line each on what ended early, on what was attained at which cost, on what went wrong last."""
        if self._stopped or self._paused:
            waiting = f", {len(self._paused)} wait" if self._paused else ""
            saved = counted(self._epochs_saved, "epoch")
            yield f"{counted(self._stopped, 'trial')} stopped early{waiting}: {saved} saved"
        spent = self.course.spent(row["since"] for row in self.running)
        if spent.seconds >= 1.0:
            yield "; ".join(filter(None, (self._hypervolume(), f"cost so far: {spent.words()}")))
        if self.idle:
            yield self.idle
        if self.course.warning:
            yield f"last warning: {self.course.warning}"

    def _hypervolume(self) -> str:
        found = self.course.hypervolume
        return "" if found is None else f"hypervolume {found:.4f}"


def describe(row: Mapping[str, Any]) -> str:
    """A trial in a few words: ``gdiff c=0.41 lr=8.3e-05 autolr``."""
    words = [str(row["method"])]
    if row.get("c") is not None:
        words.append(f"c={float(row['c']):.2f}")
    words.append(f"lr={float(row['lr']):.1e}")
    if row.get("auto_lr") == "on":
        words.append("autolr")
    return " ".join(words)


def _number(value: object) -> str:
    return f"{float(value):.3g}" if isinstance(value, (int, float)) else "-"
