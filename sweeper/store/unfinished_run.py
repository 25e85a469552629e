"""Continue an interrupted run of ``unlearn --out`` from two files: the spec and the last saved state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from search_spaces.common.durable import Throttle, exclusive, remove_leftovers, write_json
from sweeper.store.columns import unused_columns
from sweeper.store.tables import ResultTables
from trainables.methods import MethodError
from trainables.run.reports import EpochReport
from trainables.run.run import UnlearningRun
from trainables.saved_state import load_state_file, save_state_file
from trainables.spec import TrialSpec

RUN_FILE, STATE_FILE = "unfinished.json", "unfinished.pt"
SAVE_SHARE = 0.05


class OtherRun(Exception):
    """The folder contains another unfinished run, or another process uses the folder."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RunFile:
    """The content of unfinished.json, which describes the unfinished run of a folder."""

    spec: TrialSpec
    landscape_points: int
    command: str
    threads: int
    plugins: tuple[str, ...]

    @classmethod
    def read(cls, out: Path) -> RunFile | None:
        """Read unfinished.json in ``out``. Return None if the file is missing or damaged."""
        try:
            content = json.loads((out / RUN_FILE).read_text(encoding="utf-8"))
            return cls(
                spec=TrialSpec.from_dict(content["spec"]),
                landscape_points=int(content["landscape_points"]),
                command=str(content["command"]),
                threads=int(content["threads"]),
                plugins=tuple(str(digest) for digest in content["plugins"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def other_run_problem(out: Path, spec: TrialSpec, *, landscape_points: int) -> str | None:
    """Return an error message if ``out`` contains an unfinished run with other settings, otherwise None."""
    if (run_file := RunFile.read(out)) is None:
        return None
    if not spec.target_key:  # the targets are not compared
        spec = replace(spec, target_key=run_file.spec.target_key)
    try:
        plugins = tuple(spec.plugin_digests)
        is_same_spec = spec.spec_hash == run_file.spec.spec_hash
        if is_same_spec and landscape_points == run_file.landscape_points and plugins == run_file.plugins:
            return None
        run_settings = _settings(run_file.spec, run_file.landscape_points, run_file.plugins)
        settings = _settings(spec, landscape_points, plugins)
        names = ", ".join(name for name in settings if settings[name] != run_settings[name])
    except MethodError:  # the other run's method comes from a plug-in that is not loaded here
        names = "method"
    return (
        f"--out {out}: the folder contains an unfinished run that differs in {names}. Continue that run with "
        f"'{run_file.command}', or choose another folder"
    )


class UnfinishedRun:
    """Records, saves and restores the run in folder ``out``. Saving takes at most 5% of the run's wall-clock time.

    ``threads`` is the number of threads of torch with which the run began. With another number, a resumed run would
    not be bit-identical to an uninterrupted run.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.threads = torch.get_num_threads()
        self._state = out / STATE_FILE
        self._throttle = Throttle(share=SAVE_SHARE)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the folder. Raise OtherRun if another process holds the lock."""
        self.out.mkdir(parents=True, exist_ok=True)
        reason = "another process is executing the run in this folder; wait until it ends, or choose another folder"
        return exclusive(self.out, OtherRun(f"--out {self.out}: {reason}"))

    def begin(self, run: UnlearningRun, *, landscape_points: int, command: str) -> float:
        """Restore the run from its saved state, if any. Return the number of complete epochs.

        Rows of steps after the saved state are deleted from the tables.
        """
        if problem := other_run_problem(self.out, run.spec, landscape_points=landscape_points):
            raise OtherRun(problem)
        if (run_file := RunFile.read(self.out)) is not None:
            self.threads = run_file.threads
        content = {
            "spec": run.spec.to_dict(),
            "landscape_points": landscape_points,
            "command": command,
            "threads": self.threads,
            "plugins": run.spec.plugin_digests,
        }
        write_json(self.out / RUN_FILE, content)
        remove_leftovers(self._state)
        (self.out / "landscape.csv").unlink(missing_ok=True)  # written once, at the end of a run
        state = load_state_file(self._state)
        if state is not None:
            run.load_state_dict(state)
            if run.auto_lr is not None:
                run.auto_lr.landscape.extend(state["landscape"])
        self._tables(run.spec).truncate(run.step if state is not None else -1)
        return run.epoch

    def record(self, run: UnlearningRun, report: EpochReport) -> None:
        """Append the rows of a report to the tables. Save the state of an unfinished run if a save is due.

        If writing the state to the disk fails, the run continues.
        """
        tables = self._tables(run.spec)
        id_cell = {"trial_id": run.spec.spec_hash}
        tables.history.append([{**id_cell, **report.row()}])
        if report.updates:
            tables.auto_lr.append({**id_cell, **update} for update in report.updates)
        if report.status is None and self._throttle.is_due():
            with self._throttle.saving():
                landscape = [] if run.auto_lr is None else run.auto_lr.landscape
                save_state_file({**run.state_dict(), "landscape": landscape}, self._state)

    def discard(self) -> None:
        """Delete unfinished.json and the saved state."""
        for path in (self._state, self.out / RUN_FILE):
            path.unlink(missing_ok=True)

    def _tables(self, spec: TrialSpec) -> ResultTables:
        return ResultTables(self.out, without=unused_columns([spec.method], spec.metrics))


def _settings(spec: TrialSpec, landscape_points: int, plugins: Sequence[str]) -> dict[str, object]:
    settings = {name: value for name, value in spec.row().items() if name != "target_key"}
    settings["landscape"] = landscape_points
    settings["the content of the model or data"] = spec.target_key
    settings["the content of the plug-ins"] = plugins
    return settings
