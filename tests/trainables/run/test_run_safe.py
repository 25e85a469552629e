"""A run under the safe rule: nothing it hands out is ruined, and an interruption changes no bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.auto_lr.safe import CUT, HOME, TOLERANCE
from trainables.run.reports import Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec

MakeSpec = Callable[..., TrialSpec]
RUIN = {"auto_lr": "on", "auto_lr_smoothing": "safe", "auto_lr_every": 2, "batch_size": 4, "auto_lr_log_forget": False}


def bits(run: UnlearningRun) -> list[Any]:
    moments = run.optimizer.state_dict()["state"]
    return [*run.model.parameters(), *run.model.buffers(), *(v for part in moments.values() for v in part.values())]


def equal(found: list[Any], expected: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_run_that_would_be_ruined_is_drawn_back_as_far_as_it_takes(workspace: Workspace, make_spec: MakeSpec) -> None:
    fixed = list(UnlearningRun(make_spec(method="ga", lr=1e-2, epochs=6), workspace))[-1]
    target = UnlearningRun(make_spec(), workspace)._evaluate()
    last = list(UnlearningRun(make_spec(method="ga", lr=1e-2, epochs=6, **RUIN), workspace))[-1]
    assert fixed.losses["retain_loss"] > target["retain_loss"] + 1.0
    assert last.losses["retain_loss"] <= target["retain_loss"] + TOLERANCE
    assert target["forget_loss"] < last.losses["forget_loss"] < fixed.losses["forget_loss"]
    assert last.training["auto_lr_rolled_back"] > 0
    assert last.training["auto_lr_harmful"] > 0


def test_from_a_target_that_is_good_it_is_drawn_back_to_within_a_tenth(
    workspace: Workspace, make_spec: MakeSpec
) -> None:
    """With one look, at the end: the last good weights are the target's, and those handed out are beyond them."""
    target = UnlearningRun(make_spec(), workspace)._evaluate()
    last = list(UnlearningRun(make_spec(method="ga", lr=1e-2, epochs=6, eval_every=6, **RUIN), workspace))[-1]
    assert target["retain_loss"] < last.losses["retain_loss"] <= target["retain_loss"] + HOME
    assert last.losses["forget_loss"] > target["forget_loss"]


def test_what_is_reported_is_the_model_that_is_handed_out(workspace: Workspace, make_spec: MakeSpec) -> None:
    run = UnlearningRun(make_spec(method="ga", lr=1e-2, epochs=6, **RUIN), workspace)
    last = list(run)[-1]
    assert last.training["auto_lr_rolled_back"] > 0
    assert run._evaluator.losses(run.model) == last.losses


def test_a_number_that_is_none_is_gone_back_from_at_a_lower_rate(workspace: Workspace, make_spec: MakeSpec) -> None:
    run = UnlearningRun(make_spec(method="gdiff", lr=1e-3, epochs=5, **RUIN), workspace)
    reports = [next(run), next(run)]
    good = [part.detach().clone() for part in bits(run)]
    rate = run.auto_lr._rate
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    reports.append(next(run))
    assert equal(bits(run), good), "the epoch's remaining steps are lost, not taken at other weights"
    assert run.auto_lr._rate == rate / CUT
    reports += list(run)
    assert [report.epoch for report in reports] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert reports[-1].status is Status.FINISHED
    assert all(math.isfinite(value) for report in reports for value in report.losses.values())


def test_a_start_that_no_probe_gets_back_from_unlearns_nothing(workspace: Workspace, make_spec: MakeSpec) -> None:
    last = list(UnlearningRun(make_spec(method="gdiff", lr=1e30, auto_lr="on"), workspace))[-1]
    assert last.status is Status.FINISHED
    assert last.losses == UnlearningRun(make_spec(), workspace)._evaluate()


def test_without_a_net_it_ends_the_run(workspace: Workspace, make_spec: MakeSpec) -> None:
    run = UnlearningRun(make_spec(method="gdiff", lr=1e-3, epochs=5), workspace)
    next(run)
    with torch.no_grad():
        run.parameters[0].fill_(math.nan)
    assert [report.status for report in run] == [Status.DIVERGED]


def test_the_rate_falls_over_the_end_of_the_run_and_not_before(workspace: Workspace, make_spec: MakeSpec) -> None:
    given = {**RUIN, "auto_lr_smoothing": "safe", "batch_size": 2}
    run = UnlearningRun(make_spec(method="gd", lr=1e-3, epochs=10, **given), workspace)
    rates = [report.training["lr"] for report in run]
    assert rates[0] == rates[5] > rates[-2] > rates[-1] > 0.0


def test_going_back_restores_weights_buffers_and_optimizer_state_bit_for_bit(
    workspace: Workspace, make_spec: MakeSpec
) -> None:
    run = UnlearningRun(make_spec(method="ga", lr=1e-3, epochs=4, **RUIN), workspace)
    next(run)
    net = run.auto_lr._net
    net.keep(run.step)
    snapshot, before = net.state_dict(), [part.detach().clone() for part in bits(run)]
    next(run)
    assert not equal(bits(run), before)
    net.load_state_dict(snapshot)
    net.go_back(run.step)
    assert equal(bits(run), before)


@pytest.mark.parametrize("method", ["ga", "ngdiff"])
def test_a_run_goes_on_bit_for_bit_from_its_state_snapshot_included(
    method: str, workspace: Workspace, make_spec: MakeSpec, tmp_path: Path
) -> None:
    spec = make_spec(method=method, lr=1e-2, epochs=5, **RUIN)
    whole = UnlearningRun(spec, workspace)
    rows = [report.training for report in whole]
    expected = [part.detach().clone() for part in bits(whole)]
    for done in (1, 3):
        first = UnlearningRun(spec, workspace)
        for _ in range(done):
            next(first)
        torch.save(first.state_dict(), tmp_path / "state.pt")
        second = UnlearningRun(spec, workspace)
        second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert [report.training for report in second] == rows[done:]
        assert equal(bits(second), expected)
