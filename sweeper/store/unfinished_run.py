"""What ``unlearn --out`` needs to go on after Ctrl-C or a kill: which run the folder holds, its last saved state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.durable import Throttle, exclusive, remove_leftovers, write_json
from sweeper.store.columns import unused_columns
from sweeper.store.tables import ResultTables
from trainables.methods import MethodError
from trainables.run.run import UnlearningRun
from trainables.saved_state import load_state_file, save_state_file
from trainables.spec import TrialSpec

RUN_FILE, STATE_FILE = "unfinished.json", "unfinished.pt"
SAVE_SHARE = 0.05


class OtherRun(Exception):
    """The folder holds an unfinished run that is not this one, or that another process is at; a plain sentence."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RunFile:
    """unfinished.json: the run a folder was begun for. ``spec`` names its target, too."""

    spec: TrialSpec
    landscape_points: int
    command: str
    plugins: tuple[str, ...] = ()

    @classmethod
    def read(cls, out: Path) -> RunFile | None:
        """The unfinished run in ``out``; None where there is none."""
        try:
            content = json.loads((out / RUN_FILE).read_text(encoding="utf-8"))
            spec = TrialSpec.from_dict(content["spec"])
            known = tuple(map(str, content.get("plugins", ())))
            return cls(spec, int(content["landscape_points"]), str(content["command"]), known)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def other_run_problem(out: Path, spec: TrialSpec, *, landscape_points: int) -> str | None:
    """Why ``spec`` cannot go on in ``out``, where an unfinished run lies; None where it can or there is none.

    A ``spec`` without a target key is taken to be of the same target.
    """
    if (found := RunFile.read(out)) is None:
        return None
    spec = spec if spec.target_key else replace(spec, target_key=found.spec.target_key)
    try:
        asked = (landscape_points, tuple(spec.plugins))
        if (spec.spec_hash, *asked) == (found.spec.spec_hash, found.landscape_points, found.plugins):
            return None
        theirs = _settings(found.spec, found.landscape_points, found.plugins)
        given = _settings(spec, *asked)
        names = ", ".join(name for name in given if given[name] != theirs[name])
    except MethodError:  # that of a plug-in which is not used here
        names = "method"
    return (
        f"--out {out}: it holds an unfinished run with another {names}; go on with that by "
        f"'{found.command}', or name another folder"
    )


class UnfinishedRun:
    """The run being done in a folder: its state is saved after an epoch, in at most 5% of the time."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._state = out / STATE_FILE
        self._throttle = Throttle(share=SAVE_SHARE)

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes away from the folder.

        Raises:
            OtherRun: another one is at it.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        return exclusive(self.out, OtherRun(f"--out {self.out}: this run is going on in another process"))

    def begin(self, run: UnlearningRun, *, landscape_points: int, command: str) -> float:
        """Take up the saved state, and cut the logs to it; returns the epochs done, 0 where there is no whole state.

        Raises:
            OtherRun: the folder holds an unfinished run of another spec.
        """
        if problem := other_run_problem(self.out, run.spec, landscape_points=landscape_points):
            raise OtherRun(problem)
        content = {"spec": run.spec.to_dict(), "landscape_points": landscape_points, "command": command}
        content["plugins"] = run.spec.plugins
        write_json(self.out / RUN_FILE, content)
        remove_leftovers(self._state)
        (self.out / "landscape.csv").unlink(missing_ok=True)  # written at the end of a run, and then whole
        if (state := load_state_file(self._state)) is not None:
            run.load_state_dict(state)
            run.auto_lr.landscape.extend(state["landscape"])
        unused = unused_columns([run.spec.method], run.spec.metrics)
        ResultTables(self.out, without=unused).mend({run.spec.spec_hash: run.step} if state is not None else {})
        return run.epoch

    def save(self, run: UnlearningRun) -> None:
        """Write the state whole, if it is due. A disk that refuses costs the state, not the run."""
        if self._throttle.is_due():
            with self._throttle.saving():
                save_state_file({**run.state_dict(), "landscape": run.auto_lr.landscape}, self._state)

    def discard(self) -> None:
        """The run is over."""
        for path in (self._state, self.out / RUN_FILE):
            path.unlink(missing_ok=True)


def _settings(spec: TrialSpec, landscape_points: int, plugins: Sequence[str]) -> dict[str, object]:
    named = spec.row() | {"landscape": landscape_points, "model or data (its content)": spec.target_key}
    named["plug-in (its content)"] = plugins
    del named["target_key"]
    return named
