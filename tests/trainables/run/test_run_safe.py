"""A run with the rule ``safe`` keeps its model, recovers from NaN, and can be interrupted without a change."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits
from trainables.auto_lr.safe import CUT, annealing
from trainables.run.interpolation import KEPT_SHARE, Quality
from trainables.run.reports import Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace

RUIN = {"auto_lr": "on", "auto_lr_smoothing": "safe", "auto_lr_every": 2, "batch_size": 4, "auto_lr_log_forget": False}


def bits(run: UnlearningRun) -> list[Any]:
    moments = run.optimizer.state_dict()["state"]
    return [*run.model.parameters(), *run.model.buffers(), *(v for part in moments.values() for v in part.values())]


def losses_of(run: UnlearningRun) -> Any:
    run._evaluate()
    return run._last_losses


def look(run: UnlearningRun, *_: object) -> Quality:
    run._evaluate()
    return run._quality()


def test_a_run_that_would_collapse_keeps_its_model(start: Start) -> None:
    given = {"method": "ga", "lr": 1e-2, "epochs": 6, **RUIN}
    target = look(start())
    ruined = look(run := start(interpolate="off", **given), last := list(run)[-1])
    kept = look(run := start(**given), found := list(run)[-1])
    assert ruined.agreement < KEPT_SHARE * target.agreement <= kept.agreement
    assert "interpolation" not in last.training
    assert 0.0 < found.training["interpolation"] < 1.0


@pytest.mark.parametrize("changes", [{"method": "ga"}, {"method": "npo+ngdiff"}, {"method": "gdiff", "micro_batch": 2}])
def test_after_a_nan_the_run_starts_again_at_a_lower_rate(
    changes: dict[str, Any], workspace: Workspace, make_spec: MakeSpec
) -> None:
    """NaN gradients must be deleted, because the next gradients would be added to them."""
    spec = make_spec(lr=1e-3, epochs=5, **changes, **RUIN)
    run = UnlearningRun(spec, workspace)
    start = [part.detach().clone() for part in bits(run)]
    reports = [next(run), next(run)]
    rate = run.auto_lr._rate
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    reports.append(next(run))
    assert same_bits(bits(run), start), "the epoch's remaining steps are skipped, not taken at other weights"
    assert run.auto_lr._rate == rate / CUT
    assert reports[-1].training["auto_lr_rolled_back"] == run.step > 0
    saved, restarted_at = run.state_dict(), run.step
    reports += list(run)
    assert [report.epoch for report in reports] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert reports[-1].step > reports[-2].step > restarted_at
    assert reports[-1].status is Status.FINISHED
    assert reports[-1].training["lr"] == pytest.approx(rate / CUT * annealing(run.step, run.step))
    assert reports[-1].training["auto_lr_rolled_back"] == restarted_at
    assert all(math.isfinite(value) for report in reports for value in report.losses.values())
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(saved)
    assert [report.losses for report in resumed] == [report.losses for report in reports[3:]]


def test_a_run_that_restarts_in_its_last_epoch_ends_at_the_target_and_reports_its_losses(start: Start) -> None:
    run = start(method="gdiff", lr=1e-3, epochs=2, **RUIN)
    next(run)
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    last = next(run)
    assert last.losses == losses_of(start())
    assert last.training["auto_lr_rolled_back"] > 0
    assert "interpolation" not in last.training


def test_a_first_rate_that_is_too_large_for_every_probe_changes_no_weights(start: Start) -> None:
    last = list(start(method="gdiff", lr=1e30, auto_lr="on"))[-1]
    assert last.status is Status.FINISHED
    assert last.losses == losses_of(start())
