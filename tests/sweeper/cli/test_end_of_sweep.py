"""The output of a command whose sweep ends: the summary, the next command, the exit code."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeper.driver.finalize import Summary
from sweeper.execution.placement import PlacementError
from sweeper.store.folder import SweepError
from tests.sweeper.cli.conftest import Command, names, summary_of
from trainables.target.cache import TargetError

End = Callable[..., None]
NONE_GOOD: dict[str, object] = {"headline": "The headline.", "advice": "The advice.", "judged": ["The judgement."]}
NONE_GOOD |= {"recommended": False, "trial_id": "00002", "epoch": 3.0, "checkpoint": "checkpoints/00002"}


@pytest.fixture
def ends(out: Path, monkeypatch: pytest.MonkeyPatch) -> End:
    """Make the sweep end immediately, with an error or with a summary."""

    def end(error: BaseException | None = None, **given: Any) -> None:
        def run(out: Path, *, console: object, changes: object = None, **more: object) -> Summary:
            if error is not None:
                raise error
            return summary_of(out, **given)

        monkeypatch.setattr("sweeper.sweep.run", run)

    return end


def test_the_summary_has_counts_the_answer_and_where_everything_is(pareto: Command, out: Path, ends: End) -> None:
    status = {"finished": 16, "stopped": 12, "diverged": 3, "failed": 1}
    ends(status=status, trials=32, asked=32, hypervolume=0.61234, tracking="sqlite:///m", answer=NONE_GOOD)
    result = pareto()
    assert result.exit_code == 0
    assert re.findall(r"\d+", result.stdout.splitlines()[0]) == ["32", "16", "12", "3", "1"]
    answer = ["The headline.", "The advice.", "The judgement."]
    where = [f"{out}/report.html", "sqlite:///m", f"{out}/checkpoints/00002"]
    assert names(result.stdout, [*answer, *where, "0.6123", "trial 00002", "epoch 3"])


def test_a_sweep_that_ended_early_has_the_reason_and_the_command_that_continues(
    pareto: Command, tmp_path: Path, ends: End
) -> None:
    ends(asked=8, reused=2, ended_because="a plateau (...)", further="--until none")
    lines = pareto(out=tmp_path / "my sweep").stdout.splitlines()
    assert re.findall(r"\d+", lines[1]) == ["2"], "reused trials"
    assert names(lines[-2], ["a plateau (...)", "5", "8"])
    assert lines[-1] == f"  python -m sweeper resume '{tmp_path}/my sweep' --until none"


def test_a_sweep_without_further_configurations_cannot_continue(pareto: Command, out: Path, ends: End) -> None:
    ends(asked=8, ended_because="the size of the search space (...)", further=None)
    result = pareto()
    assert result.exit_code == 0
    assert names(result.stdout.splitlines()[-1], ["the size of the search space (...)", "5", "8"])
    assert "resume" not in result.stdout


def test_json_is_the_only_thing_on_stdout(pareto: Command, out: Path, ends: End) -> None:
    ends(status={"finished": 0, "stopped": 0, "diverged": 0, "failed": 3}, hypervolume=None, front=0)
    result = pareto("--json")
    assert result.exit_code == 1, "every trial failed"
    assert json.loads(result.stdout)["out"] == str(out)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SweepError("4 trials lost"), 1),
        (PlacementError("no node"), 2),
        (TargetError("not memorised"), 1),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/trials.csv"), 1),
        (KeyboardInterrupt("interrupted"), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_end_without_a_result_is_one_line_and_an_exit_code(
    pareto: Command, out: Path, ends: End, error: BaseException, code: int
) -> None:
    ends(error)
    result = pareto()
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert str(error.args[-1]) in line
    assert out.exists() != isinstance(error, PlacementError), "the command can be repeated on a cluster with a place"


def test_a_bug_is_not_disguised_as_a_mistake_of_the_user(pareto: Command, ends: End) -> None:
    ends(ZeroDivisionError("a bug"))
    assert isinstance(pareto().exception, ZeroDivisionError)
