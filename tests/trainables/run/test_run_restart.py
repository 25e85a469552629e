"""With ``--on-divergence restart``, a run recovers from NaN, at a fixed rate and with AutoLR alike."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits
from trainables.run.decay import decay_factor
from trainables.run.divergence import RESTART_CUT
from trainables.run.reports import Outcome, Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace

RESTART = {"on_divergence": "restart", "lr_decay": "linear", "batch_size": 4}
RATES: dict[str, dict[str, Any]] = {"fixed": {}, "gen": {"auto_lr": "gen", "auto_lr_start": 2, "auto_lr_every": 2}}


@pytest.fixture(scope="module")
def workspace(half_scored: Workspace) -> Workspace:
    return half_scored


def bits(run: UnlearningRun) -> list[Any]:
    moments = run.optimizer.state_dict()["state"]
    return [*run.model.parameters(), *run.model.buffers(), *(v for part in moments.values() for v in part.values())]


def losses_of(run: UnlearningRun) -> Any:
    run._evaluate()
    return run._last_losses


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("changes", [{"method": "ga"}, {"method": "npo+ngdiff"}, {"method": "gdiff", "micro_batch": 2}])
def test_after_a_nan_the_run_starts_again_at_a_lower_rate(
    changes: dict[str, Any], rate: str, workspace: Workspace, make_spec: MakeSpec
) -> None:
    """NaN gradients must be deleted, because the next gradients would be added to them."""
    spec = make_spec(lr=1e-3, epochs=5, **changes, **RATES[rate], **RESTART)
    run = UnlearningRun(spec, workspace)
    start = [part.detach().clone() for part in bits(run)]
    reports = [next(run), next(run)]
    previous_rate = run.rate
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    reports.append(next(run))
    assert same_bits(bits(run), start), "the epoch's remaining steps are skipped, not taken at other weights"
    assert run.rate == run.optimizer.param_groups[0]["lr"] == previous_rate / RESTART_CUT
    assert reports[-1].training["steps_undone"] == run.step > 0
    saved, restarted_at = run.state_dict(), run.step
    reports += list(run)
    assert [report.epoch for report in reports] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert reports[-1].step > reports[-2].step > restarted_at
    assert reports[-1].status is Status.FINISHED
    assert reports[-1].training["lr"] == run.rate * decay_factor("linear", step=run.step, steps=run.step)
    assert Outcome.after(reports[-1], status=Status.FINISHED).steps_undone == restarted_at
    assert all(math.isfinite(value) for report in reports for value in report.losses.values())
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(saved)
    assert [report.losses for report in resumed] == [report.losses for report in reports[3:]]


def test_a_run_that_restarts_in_its_last_epoch_ends_at_the_target_and_reports_its_losses(start: Start) -> None:
    run = start(method="gdiff", lr=1e-3, epochs=2, interpolate="on", **RESTART)
    next(run)
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    last = next(run)
    assert last.losses == losses_of(start())
    assert last.training["steps_undone"] > 0
    assert "interpolation" not in last.training


def test_without_a_restart_the_run_ends_as_diverged_and_reports_its_updates(start: Start) -> None:
    run = start(method="gdiff", epochs=3, auto_lr="gen", auto_lr_start=1, auto_lr_every=1)
    first = next(run)
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    last = next(run)
    assert last.status is Status.DIVERGED
    outcome = Outcome.after(last, status=Status.DIVERGED)
    assert outcome.lr_updates == first.training["lr_updates"] > 0
    assert outcome.steps_undone is None


def test_a_rate_that_is_too_large_for_every_probe_of_curvature_changes_no_weights(start: Start) -> None:
    last = list(start(method="gdiff", lr=1e30, auto_lr="curvature", on_divergence="restart"))[-1]
    assert last.status is Status.FINISHED
    assert last.losses == losses_of(start())
