"""What is said at a sweep's end of what could not be done."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sweeper import conclude as module
from sweeper.conclude import Summary, conclude
from sweeper.stopping import End

LOST = End("the loss of Ray's head at 127.0.0.1:6379")


def concluded(out: Path, broken: End | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Summary, str]:
    """A sweep of one trial, which has ended; two epochs of its frontier are unmeasured."""
    monkeypatch.setattr("analysis.page.report.write_report", lambda out: None)
    monkeypatch.setattr(module, "unmeasured", lambda out, *, most: [object()] * 2 if most == 8 else [])
    row = {"trial_id": "00000", "status": "finished", "error": None}
    session: Any = SimpleNamespace(
        ledger=SimpleNamespace(out=out, trials=SimpleNamespace(read=lambda: [row]), unwritten=0),
        end=broken,
        broken=broken,
        courier=None,
        forget_states=lambda trial_id: None,
        bring_models=list,
        put_in_order=lambda: None,
        tracker=SimpleNamespace(
            sweep_ended=lambda **given: None, close=lambda timeout: SimpleNamespace(message="no MLflow")
        ),
    )
    settings: Any = SimpleNamespace(trials=1, front_metrics=8, tracking_uri="")
    console = Console(file=io.StringIO(), width=40)
    summary = conclude(settings, out, session, console)
    return summary, console.file.getvalue()  # type: ignore[attr-defined]


def test_metrics_that_a_lost_head_left_unmeasured_are_told_with_the_command_that_measures_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary, told = concluded(tmp_path, LOST, monkeypatch)
    assert (summary.trials, summary.run_again) == (1, 0)
    assert told == (
        f"{LOST.because} came before the metrics of 2 epochs on the frontier were measured; do so with:\n"
        f"  python -m sweeper resume {tmp_path}\n"
    )


def test_a_sweep_whose_head_was_there_to_the_end_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert concluded(tmp_path, None, monkeypatch)[1] == ""
