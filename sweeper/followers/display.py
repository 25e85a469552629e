"""Show the progress of a running sweep: a line for each ended trial, and a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.text import Text

from search_spaces.common.messages import counted
from sweeper.console import heartbeat
from sweeper.search.archive import ParetoArchive
from sweeper.store.event_log import Follower
from sweeper.store.events import Event, Phase, TrialEnded
from sweeper.store.progress import Remaining, settings_text
from sweeper.store.state import Stage, SweepState
from trainables.run.reports import Status

_REDRAW = 0.25  # seconds


class Display(Follower):
    """Shows progress on stderr until :meth:`close`. The driver sets the public fields.

    Attributes:
        activity: what the driver does now: ``trials``, or a text such as ``measuring metrics: 2 of 5 epochs ...``.
        starvation_message: the reason why no trial runs, or "".
        remaining: function that returns the estimate of the remaining trials; None if it is unknown.
    """

    needs_disk = False

    def __init__(
        self,
        console: Console,
        state: SweepState,
        archive: ParetoArchive,
        *,
        trials: int,
        scores: Sequence[str] = (),
    ) -> None:
        self._console = console
        self._state = state
        self._archive = archive
        self._trials = trials
        self._scores = ("forget_loss_capped", "retain_loss", *scores)
        self.activity = "trials"
        self.starvation_message = ""
        self.remaining: Callable[[], Remaining] | None = None
        self._bar = Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._task = self._bar.add_task("", total=trials)
        self._drawn_at = 0.0
        self._live = Live(console=console, auto_refresh=False, get_renderable=self._render)
        self._stack = ExitStack()
        self._stack.enter_context(self._live if console.is_terminal else heartbeat(console, self.summary))

    def apply(self, event: Event, state: SweepState) -> None:
        """Print a line when a trial ends."""
        if not isinstance(event, TrialEnded):
            return
        outcome, settings = event.outcome, state.trials[event.trial_id].settings
        values = outcome.values
        epochs = ""
        if outcome.status is Status.STOPPED:
            epochs = f"  after {outcome.epochs_done or 0:g} of {counted(float(settings['epochs']), 'epoch')}"
        scores = " ".join(f"{name} {_number(values.get(name))}" for name in self._scores)
        error = f"  {outcome.error}" if outcome.error else ""
        seconds = f"{_number(outcome.execution.wall_seconds)} s"
        line = f"{event.trial_id} {outcome.status:<8} {settings_text(settings):<32} {scores} {seconds}"
        self._console.print(line + epochs + error, soft_wrap=True)

    def flush(self, state: SweepState) -> None:
        """Redraw the summary on a terminal, at most four times a second."""
        if self._live.is_started and time.monotonic() - self._drawn_at >= _REDRAW:
            self._drawn_at = time.monotonic()
            self._live.refresh()

    def close(self) -> None:
        """Draw the final summary, and stop the display."""
        self._stack.close()

    def summary(self) -> str:
        """Return the progress in one line. The frontier is that of the ended trials, as in their report."""
        ended = self._ended
        running = [
            trial.id + (f" at epoch {_number(trial.last_epoch)}" if trial.reports else "")
            for trial in self._state.at_stage(Stage.RUNNING)
        ]
        remaining = ""
        if self.remaining is not None and 0 < ended < self._trials:
            remaining = f"remaining: {self.remaining()}"
        parts = (
            f"{ended} of {counted(self._trials, 'trial')} done",
            f"running {', '.join(running)}" if running else self.starvation_message,
            "" if self.activity == "trials" else self.activity,
            *(_fronts(self._archive) if ended else ()),
            remaining,
        )
        return "; ".join(filter(None, parts))

    def _render(self) -> Group:
        self._bar.update(self._task, completed=self._ended)
        return Group(Text(self.summary()), self._bar)

    @property
    def _ended(self) -> int:
        """The number of ended trials of the search."""
        return len(self._state.ended_of(Phase.SEARCH))


def _fronts(archive: ParetoArchive) -> Iterator[str]:
    """Yield the size and the hypervolume of the frontier and, with constraints, of the front under the constraints."""
    yield f"{counted(archive.front.epochs, 'epoch')} on the frontier, hypervolume {archive.front.hypervolume:.4f}"
    if constraints := archive.criteria.constraints:
        epochs, hypervolume = archive.constrained_front
        names = ", ".join(map(str, constraints))
        yield f"with {names}: {counted(epochs, 'epoch')}, hypervolume {hypervolume:.4f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
