"""Show the progress of a running sweep: a live table in a terminal, otherwise one line for each trial that ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from search_spaces.messages import counted
from sweeper.followers.progress import Remaining, cost_of, describe
from sweeper.followers.progress_bar import heartbeat
from sweeper.settings.resources import Resources
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, Kind
from sweeper.store.state import Phase, SweepState, Trial

_ROWS = 12
_HERTZ = 4.0


class Display(Follower):
    """Shows progress on stderr. The fields hold what is drawn; :meth:`close` leaves the last state on the screen.

    ``scores`` are the metrics shown beside the losses, ``resources`` the resources of one trial. The owner sets
    ``activity`` (the current step after the trials), ``starving`` (why no trial runs) and three functions: ``frontier``
    returns the number of epochs on the frontier, ``hypervolume`` its hypervolume, ``remaining`` an estimate.
    """

    needs_disk = False

    def __init__(
        self,
        console: Console,
        state: SweepState,
        *,
        trials: int,
        resources: Resources,
        scores: Sequence[str] = (),
    ) -> None:
        self._console = console
        self._state = state
        self._scores = tuple(scores)
        self.resources = resources
        self.activity = "trials"
        self.starving = ""
        self.frontier: Callable[[], int] = lambda: 0
        self.hypervolume: Callable[[], float | None] = lambda: None
        self.remaining: Callable[[], Remaining] | None = None
        self.warning, self.warned_at = "", 0.0
        self._progress = Progress(
            *(TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            *(TextColumn("{task.fields[remaining]}"), TextColumn("{task.fields[activity]}")),
        )
        self._task = self._progress.add_task(
            "trials", total=trials, completed=len(state.ended), remaining="", activity=""
        )
        self._drawn = 0.0
        self._live = Live(self._render(), console=console, auto_refresh=False) if console.is_terminal else None
        self._open = ExitStack()
        if self._live is not None:
            self._live.start()
        else:
            self._open.enter_context(heartbeat(console, self._summary))

    def apply(self, event: Event, state: SweepState) -> None:
        """Print a line when a trial ends, unless a live table is shown."""
        if event.kind is not Kind.TRIAL_ENDED:
            return
        row = state.trials[event.trial_id].row()
        if row["status"] == "failed":
            self.warn(f"trial {event.trial_id} failed: {row.get('error') or 'no reason was recorded'}")
        if self._live is not None:
            return
        early = ""
        if row["status"] == "stopped":
            early = f"  after {float(row.get('epochs_done') or 0):g} of {counted(float(row['epochs']), 'epoch')}"
        shown = {"forget": "forget_loss", "retain": "retain_loss"} | {name: name for name in self._scores}
        scores = " ".join(f"{label} {_number(row.get(name))}" for label, name in shown.items())
        error = f"  {row['error']}" if row.get("error") else ""
        line = f"{event.trial_id} {row['status']:<8} {describe(row):<32} {scores} {_number(row.get('wall_seconds'))} s"
        self._console.print(line + early + error, highlight=False, markup=False, soft_wrap=True)

    def flush(self, state: SweepState) -> None:
        """Redraw the live table, at most four times a second."""
        now = time.monotonic()
        if self._live is not None and now - self._drawn >= 1.0 / _HERTZ:
            self._drawn = now
            self._live.update(self._render(), refresh=True)

    def warn(self, text: str) -> None:
        """Show a warning until the next warning replaces it."""
        self.warning, self.warned_at = text, time.time()

    def close(self) -> None:
        """Draw the last state and stop the display."""
        self._open.close()
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
            self._live.stop()
            self._live = None

    def _activity(self) -> str:
        if self.activity != "trials":
            return self.activity
        epochs = self.frontier()
        return f"{counted(epochs, 'epoch')} on the frontier" if epochs else ""

    def _remaining(self) -> str:
        return f"left: {self.remaining()}" if self.remaining is not None and self._state.ended else ""

    def _summary(self) -> str:
        """Return the progress in one line."""
        total = self._progress.tasks[0].total or 0
        ended = len(self._state.ended)
        running = [
            trial.id + (f" at epoch {_number(trial.last_epoch)}" if trial.reports else "")
            for trial in self._state.in_phase(Phase.RUNNING)
        ]
        parts = (
            f"{ended} of {counted(total, 'trial')} done",
            f"running {', '.join(running)}" if running else self.starving,
            self._activity(),
            self._hypervolume(),
            "" if ended >= total else self._remaining(),
        )
        return "; ".join(filter(None, parts))

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "method", "status"):
            table.add_column(name, no_wrap=True)
        for name in ("epoch", "forget loss", "retain loss", *self._scores):
            table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
        running = self._state.in_phase(Phase.RUNNING)
        rows = max(4, min(_ROWS, self._console.height - 7))
        for trial in [*self._state.ended_trials[-max(1, rows - len(running)) :], *running]:
            values = trial.outcome or (trial.reports[-1] if trial.reports else {})
            table.add_row(
                trial.id,
                describe(trial.settings),
                str(trial.outcome.get("status", "running")),
                _number(values.get("epochs_done", values.get("epoch"))),
                *(_number(values.get(name)) for name in ("forget_loss", "retain_loss", *self._scores)),
            )
        self._progress.update(
            self._task, completed=len(self._state.ended), remaining=self._remaining(), activity=self._activity()
        )
        lines = (Text(line, no_wrap=True, overflow="ellipsis") for line in self._totals())
        return Group(table, *lines, self._progress)

    def _totals(self) -> Iterator[str]:
        """Yield one line about early stops, one about hypervolume and cost, and one about the last warning, if any."""
        stopped = [trial for trial in self._state.ended_trials if trial.outcome["status"] == "stopped"]
        paused = len(self._state.in_phase(Phase.PAUSED))
        if stopped or paused:
            saved = sum(_saved_epochs(trial) for trial in stopped)
            waiting = f", {paused} paused" if paused else ""
            yield f"{counted(len(stopped), 'trial')} stopped early{waiting}: {counted(saved, 'epoch')} saved"
        cost = cost_of(self._state, self.resources)
        if cost.seconds >= 1.0:
            yield "; ".join(filter(None, (self._hypervolume(), f"cost so far: {cost}")))
        if self.starving:
            yield self.starving
        if self.warning:
            yield f"last warning: {self.warning}"

    def _hypervolume(self) -> str:
        value = self.hypervolume()
        return "" if value is None else f"hypervolume {value:.4f}"


def _saved_epochs(trial: Trial) -> float:
    return float(trial.settings.get("epochs") or 0.0) - float(trial.outcome.get("epochs_done") or 0.0)


def _number(value: object) -> str:
    return f"{float(value):.3g}" if isinstance(value, (int, float)) else "-"
