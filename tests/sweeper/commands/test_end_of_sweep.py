"""What a command tells of how its sweep ended: the summary, what to do next, the exit code."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sweeper.commands.pareto import describe
from sweeper.conclude import Summary
from sweeper.folder import SweepError, UsageError
from sweeper.interruption import Interrupted


def run_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(out: Path, *, console: object, change: object = None, **more: object) -> Summary:
        raise error

    monkeypatch.setattr("sweeper.sweep.run", run)


def test_a_sweep_that_is_done_prints_its_summary(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary(
        out=str(out),
        status={"finished": 3, "diverged": 1},
        trials=4,
        asked=4,
        hypervolume=0.61234,
        front=2,
        tracking="sqlite:///m",
        answer={
            "headline": "Nothing was forgotten.",
            "advice": "To forget more: ...",
            "judged": ["It misses ..."],
            "recommended": False,
            "trial_id": "00002",
            "epoch": 3.0,
            "checkpoint": "checkpoints/00002",
        },
    )
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change=None, **more: summary)
    result = pareto()
    assert result.exit_code == 0
    for text in ("4 trials", "3 finished, 1 diverged", "0.6123", f"{out}/report.html", "sqlite:///m"):
        assert text in result.stdout
    assert (
        f"Nothing was forgotten.\nclosest: trial 00002 after epoch 3, {out}/checkpoints/00002\n"
        "To forget more: ...\nIt misses ...\n"
    ) in result.stdout


def test_one_trial_that_is_recommended_is_named_with_its_checkpoint() -> None:
    answer = {"headline": "Take trial 00000: ...", "judged": [], "recommended": True, "trial_id": "00000"}
    answer |= {"epoch": None, "checkpoint": "checkpoints/00000"}
    lines = describe(Summary("out", 1, 1, {"finished": 1}, 0.5, 1, "", answer=answer)).splitlines()
    assert lines[:3] == ["1 trial: 1 finished", "Take trial 00000: ...", "checkpoint: out/checkpoints/00000"]
    assert lines[3] == "frontier: 1 trial, hypervolume 0.5000"


def test_the_console_counts_every_way_a_trial_ended() -> None:
    status = {"finished": 16, "stopped": 12, "diverged": 3, "failed": 1}
    first = describe(Summary("out", 32, 32, status, 0.5, 1, "")).splitlines()[0]
    assert re.findall(r"\d+", first) == ["32", "16", "12", "3", "1"]
    assert "stopped early" in first


@pytest.mark.parametrize(
    ("because", "further"),
    [("the time budget", ""), ("a plateau (...)", "--until none"), ("the budget of 9 epochs", "--epoch-budget EPOCHS")],
)
def test_a_sweep_that_ended_before_all_its_trials_says_why_and_how_to_go_on(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch, because: str, further: str
) -> None:
    summary = Summary(str(out), 3, 8, {"finished": 3}, 0.5, 2, "", reused=2, ended_because=because, further=further)
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change, **more: summary)
    lines = pareto().stdout.splitlines()
    assert lines[:2] == ["3 trials: 3 finished", "2 of them taken over from earlier sweeps, not run again"]
    assert lines[-2:] == [
        f"{because} left 5 of 8 trials undone; go on with:",
        f"  python -m sweeper resume {out} {further}".rstrip(),
    ]


def test_points_that_were_run_before_are_counted_apart(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary(str(out), 5, 5, {"finished": 5}, 0.5, 2, "", reused=2, repeated=1)
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change, **more: summary)
    assert pareto().stdout.splitlines()[:3] == [
        "5 trials: 5 finished",
        "1 of them at points that had been run here before, not run again",
        "2 of them taken over from earlier sweeps, not run again",
    ]


def test_json_is_the_only_thing_on_stdout(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"finished": 0, "stopped": 0, "diverged": 0, "failed": 4}
    summary = Summary(out=str(out), status=status, trials=4, asked=4, hypervolume=None, front=0, tracking="")
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change=None, **more: summary)
    result = pareto("--json")
    assert result.exit_code == 1, "every trial failed"
    content = json.loads(result.stdout)
    assert content["out"] == str(out)
    assert (content["trials"], content["status"], content["hypervolume"]) == (4, status, None)


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["plain", "json"])
def test_an_interrupted_sweep_prints_how_to_go_on(
    pareto: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: list[str]
) -> None:
    run_raises(monkeypatch, Interrupted())
    result = pareto(*as_json, out=tmp_path / "my sweep")
    assert result.exit_code == 130
    assert f"python -m sweeper resume '{tmp_path}/my sweep'" in result.stderr
    if as_json:
        assert json.loads(result.stdout) == {"out": str(tmp_path / "my sweep"), "interrupted": True}


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/trials.csv")


def placement_error() -> Exception:
    from sweeper.placement import PlacementError

    return PlacementError("no node can run a trial")


def target_error() -> Exception:
    from trainables.target.finetune import TargetError

    return TargetError("the data were not memorised")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SweepError("4 trials could not be written"), 1, "4 trials could not be written"),
        (UsageError("the sweep is running in another process"), 2, "running in another process"),
        (placement_error(), 2, "no node can run a trial"),
        (target_error(), 1, "the data were not memorised"),
        (no_space(), 1, "No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=["failed", "wrong usage", "no place", "no target", "disk full", "interrupted"],
)
def test_an_end_without_a_result_is_one_sentence_and_an_exit_code(
    pareto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    run_raises(monkeypatch, error)
    result = pareto()
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bug_is_not_dressed_up_as_a_users_mistake(
    pareto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_raises(monkeypatch, ZeroDivisionError("a bug"))
    assert isinstance(pareto().exception, ZeroDivisionError)
