"""What the summary of a sweep has of what could not be done."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sweeper import conclude as module
from sweeper.cli.pareto import describe
from sweeper.conclude import Summary, conclude
from sweeper.search.stopping import End

ANSWER = {
    "recommended": False,
    "trial_id": "00000",
    "epoch": 13.0,
    "checkpoint": "checkpoints/00000-epoch-13",
    "headline": "The headline.",
    "advice": None,
    "judged": ["It meets one threshold.", "It misses another."],
    "outcome": "no good trade-off",
}
LOST = End("the loss of Ray's head at 127.0.0.1:6379")


def concluded(
    out: Path,
    broken: End | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    unscored: bool = False,
    sent: dict[str, Any] | None = None,
) -> Summary:
    """A sweep of one trial, which has ended; two epochs of its frontier are unmeasured. ``sent`` gets MLflow's part."""
    monkeypatch.setattr("analysis.report.report.write_report", lambda out: None)
    monkeypatch.setattr(module, "unmeasured", lambda out, *, most: [object()] * 2 if most == 8 else [])
    row = {"trial_id": "00000", "status": "finished", "error": None, "checkpoint": "checkpoints/00000"}
    session: Any = SimpleNamespace(
        tables=SimpleNamespace(out=out, trials=SimpleNamespace(read=lambda: [row]), unwritten=0),
        end=broken,
        broken=broken,
        unscored=unscored,
        syncer=None,
        forget_states=lambda trial_id: None,
        bring_models=list,
        put_in_order=lambda: None,
        tracker=SimpleNamespace(
            sweep_ended=(sent if sent is not None else {}).update,
            close=lambda timeout: SimpleNamespace(message="no MLflow"),
        ),
    )
    settings: Any = SimpleNamespace(trials=1, front_metrics=8, tracking_uri="")
    return conclude(settings, out, session, Console(quiet=True))


@pytest.mark.parametrize(("broken", "unscored", "unmeasured"), [(LOST, False, 2), (None, True, 2), (None, False, 0)])
def test_metrics_that_could_not_be_measured_are_counted_with_the_reason_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: End | None, unscored: bool, unmeasured: int
) -> None:
    summary = concluded(tmp_path, broken, monkeypatch, unscored=unscored)
    assert (summary.trials, summary.run_again, summary.unmeasured) == (1, 0, unmeasured)
    assert summary.ended_because == (broken and broken.because)
    told = describe(summary)
    assert ("2 epochs" in told) == (unmeasured > 0)
    assert (LOST.because in told) == (broken is not None)
    assert (f"python -m sweeper resume {tmp_path}" in told) == (unmeasured > 0)
    assert summary.status == {"finished": 1, "stopped": 0, "diverged": 0, "failed": 0}


@pytest.mark.parametrize(
    ("epoch", "checkpoint", "expected"),
    [
        (13.0, "checkpoints/00000-epoch-13", "13"),
        (0.5, "checkpoints/00000-epoch-0.5", "0.5"),
        (13.0, None, "13"),
        (15.0, "checkpoints/00000", None),
        (None, "checkpoints/00000", None),
    ],
)
def test_mlflow_gets_the_epoch_that_the_answer_recommends_unless_it_is_the_end_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: float | None, checkpoint: str | None, expected: str | None
) -> None:
    answer = ANSWER | {"recommended": True, "epoch": epoch, "checkpoint": checkpoint}
    (tmp_path / "pareto.json").write_text(json.dumps({"answer": answer}))
    sent: dict[str, Any] = {}
    concluded(tmp_path, None, monkeypatch, sent=sent)
    found = sent["recommended"]
    assert (found.trial_id, found.epoch, found.checkpoint) == ("00000", expected, checkpoint or "")
    for part in (answer["headline"], *answer["judged"], checkpoint or ""):
        assert part in found.description
    assert sent["tags"]["recommended_trial"] == "00000"
    assert sent["tags"]["recommended_epoch"] == ("last" if epoch is None else f"{epoch:g}")


def test_mlflow_gets_no_model_from_an_answer_that_recommends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pareto.json").write_text(json.dumps({"answer": ANSWER}))
    sent: dict[str, Any] = {}
    concluded(tmp_path, None, monkeypatch, sent=sent)
    assert sent["recommended"] is None
    assert (sent["tags"]["recommended_trial"], sent["tags"]["recommended_epoch"]) == ("none", "none")
