"""Bringing MLflow up to the tables: what it has is asked of MLflow itself, what it lacks is read from the tables.

Nothing of it is noted down on disk, so nothing can be damaged or fall out of step. MLflow knows the runs of a sweep by
the tag ``sweep_id``, the last step of a run by its metrics, and a trial that it has whole, artifacts included, by the
tag ``delivered``. A request that may have arrived is sent again as it was: its times are the tables's, and MLflow
ignores a point that it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import ParamSpec

from sweeper.followers.mlflow.logged import LoggedData
from sweeper.followers.mlflow.notices import Notices
from sweeper.followers.mlflow.runs import (
    MLFLOW_STATUS,
    NOTE,
    SWEEP,
    NewRun,
    Recommendation,
    finite_metrics,
    fit_tags,
    milliseconds,
    trial_run,
)
from sweeper.followers.mlflow.store import (
    CHECKPOINTS,
    DELIVERED,
    EPOCHS,
    PARETO,
    RECOMMENDED,
    RECOMMENDED_EPOCH,
    RECOMMENDED_TRIAL,
    RefusedError,
    Store,
    StoredRun,
    UnavailableError,
    is_refusal,
    plain_reason,
)
from sweeper.store.columns import HISTORY_METRICS, METRIC_COLUMNS, OUTCOME_METRICS
from sweeper.store.tables import Mark, ResultTables

_BLOCK = 1 << 20  # bytes of history.csv read at a time
_PER_REQUEST = max(1, 1000 // len(HISTORY_METRICS))  # reports; MLflow takes 1,000 metrics, all or none
_ATTEMPTS = 3  # on a run that fails while the store answers; then it is set aside
_REPLACED = "No longer recommended. The description of the sweep's run has the current answer."

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class SweepEnd:
    """How the sweep ended; files and folders of ``artifacts`` are kept with its run, ``tags`` set on it.

    ``front`` has, of each trial on the frontier, its epochs there with the places of their checkpoints; with None the
    tags of the trials stay as they are. ``recommended`` is the model to take, if there is one. ``picture`` is the name
    of the artifact that is shown below the description.
    """

    status: str
    metrics: Mapping[str, object]
    artifacts: Sequence[Path]
    tags: Mapping[str, object] = field(default_factory=dict)
    front: Mapping[str, Mapping[str, str]] | None = None
    recommended: Recommendation | None = None
    picture: str | None = None
    at: int = field(default_factory=lambda: milliseconds(None))


@dataclass(eq=False, kw_only=True)
class Delivery:
    """The runs of one sweep in one experiment.

    ``hurry`` says whether something more urgent than artifacts has come up, ``stopped`` that no time is left.
    ``data`` is what trials are trained on, by the seed of the data; ``is_awaited`` says of which trials files are to
    come into the folder.
    ``asked`` is whether MLflow could be asked what it has, ``refusal`` why it took something not, in a few words.
    """

    tables: ResultTables
    store: Store
    sweep_id: str
    sweep: NewRun
    notices: Notices
    hurry: Callable[[], bool]
    stopped: Callable[[], bool]
    data: Mapping[str, LoggedData] = field(default_factory=dict)
    is_awaited: Callable[[str], bool] = lambda trial_id: False
    asked: bool = False
    refusal: str = ""
    sweep_end: SweepEnd | None = None
    _started: SimpleQueue[tuple[str, NewRun]] = field(default_factory=SimpleQueue)
    _runs: dict[str, StoredRun] = field(default_factory=dict)
    _to_begin: dict[str, NewRun] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    _ended: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of trials MLflow does not know to be over
    _to_keep: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of those whose artifacts it lacks
    _done: set[str] = field(default_factory=set)
    _passed_over: set[str] = field(default_factory=set)
    _trials_mark: Mark = field(default_factory=Mark)
    _history_mark: Mark = field(default_factory=Mark)
    _attempts: dict[str, int] = field(default_factory=dict)
    _aside: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._to_begin[SWEEP] = self.sweep

    @property
    def sweep_run_id(self) -> str | None:
        """The parent run's id, once there is one."""
        return self._runs[SWEEP].id if SWEEP in self._runs else None

    def trial_started(self, trial_id: str, row: Mapping[str, object]) -> None:
        """A trial begins, or goes on; told by the sweep's own thread."""
        self._started.put((trial_id, self._trial_run(trial_id, row)))

    def follow(self) -> None:
        """Send what MLflow lacks. Raises what the store raises where it cannot be used; the next call goes on."""
        self._connect()
        self._read_ends()
        self._send_reports()
        for trial_id in list(self._ended):
            self._attempt(trial_id, self._end, trial_id)
        if (end := self.sweep_end) is not None:
            metrics = finite_metrics(end.metrics, end.metrics)
            self._attempt(SWEEP, self._end_run, SWEEP, end.status, metrics, at=end.at, tags=self._described(end))
            if end.front is not None:
                for key in self._runs.keys() - {SWEEP}:
                    self._attempt(key, self._tag, key, end.front.get(key, {}), end.recommended)
        for trial_id in list(self._to_keep):
            if self.hurry():
                return
            if self.is_awaited(trial_id):
                continue
            self._attempt(trial_id, self._keep, trial_id)
        if end is not None:
            if end.recommended is not None:
                self._attempt(end.recommended.run_key, self._recommend, end.recommended)
            self._attempt(SWEEP, self._keep_sweeps, end)

    def pending(self) -> int:
        """How many rows of the tables MLflow lacks, as far as is known, and one more where the sweep's run does."""
        has = {trial_id: run.step for trial_id, run in self._runs.items() if run.step is not None}
        found = sum(row["trial_id"] not in self._done for row in self.tables.trials.read())
        mark = Mark()
        while rows := (block := self.tables.history.read_on(mark, limit=_BLOCK))[0]:
            mark = block[1]
            left = [row for row in rows if row["trial_id"] not in self._done]
            found += sum(int(row["step"]) > has.get(row["trial_id"], -1) for row in left)
        return found + (SWEEP not in self._begun or self.sweep_end is not None)

    def _connect(self) -> None:
        self.store.connect()
        if not self.asked:
            runs = self.store.runs({"sweep_id": self.sweep_id})
            if SWEEP in runs and not runs[SWEEP].active:
                remedy = f"mlflow runs restore --run-id {runs[SWEEP].id}"
                raise UnavailableError(f"the sweep's run is deleted there: restore it with `{remedy}`")
            self._runs = runs
            self.asked = True

    def _read_ends(self) -> None:
        rows, self._trials_mark = self.tables.trials.read_on(self._trials_mark)
        for row in rows:
            trial_id = row["trial_id"]
            if trial_id in self._runs and self._runs[trial_id].delivered == row["ended_at"]:
                self._done.add(trial_id)
            if trial_id not in self._done:
                self._ended[trial_id] = row
                if trial_id not in self._begun:
                    self._will_begin(trial_id, self._trial_run(trial_id, row))

    def _trial_run(self, trial_id: str, row: Mapping[str, object]) -> NewRun:
        return trial_run(trial_id, row, sweep_name=self.sweep.name, data=self.data)

    def _will_begin(self, trial_id: str, run: NewRun) -> None:
        self._to_begin[trial_id] = run
        if trial_id in self._passed_over:
            self._passed_over.clear()
            self._history_mark = Mark()

    def _begin_all(self) -> None:
        while not self._started.empty():
            self._will_begin(*self._started.get())
        for trial_id, run in list(self._to_begin.items()):
            self._attempt(trial_id, self._begin, trial_id, run)

    def _begin(self, trial_id: str, run: NewRun) -> None:
        self._begin_run(trial_id, run, {"trial_id": trial_id}, parent=None if trial_id == SWEEP else SWEEP)
        self._begun.add(trial_id)
        del self._to_begin[trial_id]

    def _begin_run(self, key: str, run: NewRun, identity: Mapping[str, str], *, parent: str | None) -> None:
        identity = {"sweep_id": self.sweep_id, **identity}
        if key not in self._runs and key in self._attempts:
            self._runs |= self.store.runs(identity)  # a request that failed may have made it
        if key not in self._runs:
            tags = {**run.tags, **identity}
            if parent is not None:
                if parent not in self._runs:
                    raise RefusedError(f"MLflow has no run for {_owner(parent)}")
                tags["mlflow.parentRunId"] = self._runs[parent].id
            self._runs[key] = self.store.create_run(name=run.name, tags=tags, at=run.at)
        self.store.begin(self._runs[key].id, params=run.params, tags=run.tags)
        if run.data is not None:
            self.store.use_data(self._runs[key].id, run.data)

    def _send_reports(self) -> None:
        while True:
            before = self._history_mark
            rows, mark = self.tables.history.read_on(before, limit=_BLOCK)
            self._begin_all()  # after the reading: a trial's start is told before its first report is written
            if self._history_mark != before:
                continue  # the reports of a trial that begins now have been passed over
            by_trial = defaultdict(list)
            for row in rows:
                by_trial[row["trial_id"]].append(row)
            for trial_id in by_trial.keys() - self._done:
                if trial_id in self._runs:
                    self._attempt(trial_id, self._log, self._runs[trial_id], by_trial[trial_id])
                else:
                    self._passed_over.add(trial_id)
            self._history_mark = mark
            if not rows:
                return

    def _log(self, run: StoredRun, reports: Sequence[Mapping[str, str]]) -> None:
        last = self._last_step(run)
        new = [report for report in reports if int(report["step"]) > last]
        for first in range(0, len(new), _PER_REQUEST):
            part = new[first : first + _PER_REQUEST]
            points = [
                (name, value, milliseconds(report["reported_at"]), int(report["step"]))
                for report in part
                for name, value in finite_metrics(report, HISTORY_METRICS).items()
            ]
            self.store.log_metrics(run.id, points)
            run.metrics |= {name: value for name, value, _, _ in points}
            run.step = int(part[-1]["step"])

    def _end(self, trial_id: str) -> None:
        row = self._ended[trial_id]
        metrics = finite_metrics(row, OUTCOME_METRICS)
        self._end_run(trial_id, row["status"], metrics, at=milliseconds(row["ended_at"]), tags={"error": row["error"]})
        self._to_keep[trial_id] = self._ended.pop(trial_id)

    def _end_run(
        self, trial_id: str, status: str, metrics: Mapping[str, float], *, at: int, tags: Mapping[str, object]
    ) -> None:
        run = self._runs[trial_id]
        step = max(self._last_step(run), 0)
        new = {name: value for name, value in metrics.items() if run.metrics.get(name) != value}
        self.store.log_metrics(run.id, [(name, value, at, step) for name, value in new.items()])
        run.metrics |= new
        ended = fit_tags({"status": status, **tags})
        self.store.end(run.id, status=MLFLOW_STATUS.get(status, "FAILED"), tags=ended, at=at)

    def _keep(self, trial_id: str) -> None:
        row, run = self._to_keep[trial_id], self._runs[trial_id]
        items = self.tables.out / "items" / f"{trial_id}.json"
        if items.is_file():
            self.store.keep(run.id, items, under="")
        if row["checkpoint"]:
            checkpoint = self.tables.out / row["checkpoint"]
            self.store.keep(run.id, checkpoint, under="checkpoint")
            data = self._trial_run(trial_id, row).data
            self.store.keep_model(run.id, checkpoint, names=OUTCOME_METRICS, data=data)
        self.store.set_tags(run.id, {DELIVERED: row["ended_at"]})
        self._done.add(trial_id)
        del self._to_keep[trial_id]

    def _described(self, end: SweepEnd) -> dict[str, object]:
        """The tags of the parent run, with the picture and a link to the recommended run in its description."""
        parts = [str(end.tags.get(NOTE, ""))]
        if end.recommended is not None and self._is_tagged(end.recommended):
            key = end.recommended.run_key
            parts.append(f"Recommended run: [{key}]({self.store.address(self._runs[key].id)})")
        if end.picture is not None and SWEEP in self._runs:
            parts.append(f"![{end.picture}](get-artifact?path={end.picture}&run_uuid={self._runs[SWEEP].id})")
        return {**end.tags, NOTE: "\n\n".join(filter(None, parts))}

    def _tag(self, key: str, epochs: Mapping[str, str], answer: Recommendation | None) -> None:
        """Tag a run with the trial's epochs on the frontier, and untag it if it is not recommended any more."""
        run, told = self._runs[key], ", ".join(epochs) or None
        if told != run.front:
            checkpoints = ", ".join(place for place in epochs.values() if place) or "none"
            tags = {PARETO: "true" if epochs else "false", EPOCHS: told or "none", CHECKPOINTS: checkpoints}
            self.store.set_tags(run.id, fit_tags(tags))
            run.front = told
        if run.recommended and (answer is None or key != answer.run_key):
            self.store.set_tags(run.id, {RECOMMENDED: "false", NOTE: _REPLACED})
            run.recommended = False

    def _recommend(self, answer: Recommendation) -> None:
        """Tag the run of the recommended model. This comes last, so that a tagged run always holds its model."""
        if answer.epoch is not None:
            self._keep_epoch(answer, answer.epoch)
        elif answer.trial_id not in self._done:
            return
        run = self._runs[answer.run_key]
        self.store.set_tags(run.id, fit_tags({RECOMMENDED: "true", NOTE: answer.description}))
        run.recommended = True

    def _keep_epoch(self, answer: Recommendation, epoch: str) -> None:
        """Make the run of an epoch equal to its row of candidates.csv and its checkpoint; twice changes nothing."""
        trial_id, key = answer.trial_id, answer.run_key
        (row,) = (row for row in self.tables.trials.read() if row["trial_id"] == trial_id)
        *_, candidate = (
            candidate
            for candidate in self.tables.candidates.read()
            if candidate["trial_id"] == trial_id and f"{float(candidate['epoch']):g}" == epoch
        )
        new, at = self._trial_run(key, row), milliseconds(row["ended_at"])
        if key not in self._runs or self._runs[key].delivered != row["ended_at"]:
            tags = {name: value for name, value in new.tags.items() if name != "status"} | {RECOMMENDED: "false"}
            identity = {RECOMMENDED_TRIAL: trial_id, RECOMMENDED_EPOCH: epoch}
            self._begin_run(key, replace(new, tags=tags), identity, parent=trial_id)
            self._runs[key].recommended = False
            self.store.end(self._runs[key].id, status="FINISHED", tags={}, at=at)
        run = self._runs[key]
        metrics = finite_metrics(candidate, METRIC_COLUMNS)
        self.store.log_metrics(run.id, [(name, value, at, int(candidate["step"])) for name, value in metrics.items()])
        if answer.checkpoint:
            checkpoint = self.tables.out / answer.checkpoint
            if run.delivered != row["ended_at"]:
                self.store.keep(run.id, checkpoint, under="checkpoint")
            self.store.keep_model(run.id, checkpoint, names=METRIC_COLUMNS, data=new.data)
            self.store.set_tags(run.id, {DELIVERED: row["ended_at"]})
            run.delivered = row["ended_at"]

    def _is_tagged(self, answer: Recommendation) -> bool:
        return answer.run_key in self._runs and self._runs[answer.run_key].recommended

    def _keep_sweeps(self, end: SweepEnd) -> None:
        self.store.set_tags(self._runs[SWEEP].id, fit_tags(self._described(end)))
        for path in end.artifacts:
            self.store.keep(self._runs[SWEEP].id, path, under=path.name if path.is_dir() else "")
        if end.recommended is None or self._is_tagged(end.recommended):
            self.sweep_end = None

    def _last_step(self, run: StoredRun) -> int:
        if run.step is None:
            run.step = self.store.last_step(run.id, run.metrics)
        return run.step

    def _attempt(self, trial_id: str, action: Callable[_P, None], *args: _P.args, **given: _P.kwargs) -> None:
        """Do it now, or raise to do it again; what MLflow refuses while it answers waits for the next session."""
        if trial_id in self._aside:
            return
        if self.stopped():
            raise UnavailableError("no time was left")
        try:
            action(*args, **given)
        except Exception as error:
            self._attempts[trial_id] = attempts = self._attempts.get(trial_id, 0) + 1
            if not is_refusal(error) and (attempts < _ATTEMPTS or not self.store.answers()):
                raise
            self._aside.add(trial_id)
            self.refusal = plain_reason(error)
            self.notices.warn("refused", f"records of {_owner(trial_id)} cannot go to MLflow: {self.refusal}")
        else:
            self._attempts.pop(trial_id, None)


def _owner(key: str) -> str:
    return "the sweep" if key == SWEEP else f"trial {key}"
