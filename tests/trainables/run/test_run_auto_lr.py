"""AutoLR in a run fits the rate to the retain loss along the optimizer's step, on the batches that the spec names."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PhiForCausalLM

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits, weights_of
from trainables.auto_lr.fit import Fit
from trainables.auto_lr.rules import FALLBACKS
from trainables.auto_lr.step import UPDATE_COLUMNS
from trainables.models.checkpoints import save_model
from trainables.run.reports import Outcome, Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.target.target import Target


@pytest.mark.parametrize(("probe", "dtype"), [("same", "fp32"), ("fresh", "bf16")])
def test_an_auto_lr_step_is_the_adamw_step_at_the_rate_of_the_fitted_parabola(
    workspace: Workspace, make_spec: MakeSpec, known_network: PhiForCausalLM, exact_nll: Any, probe: str, dtype: str
) -> None:
    """One batch is the whole set, so both kinds of probes use the same data. bf16 would not resolve such a step."""
    eta = 3e-4
    spec = make_spec(method="gd", lr=eta, batch_size=8, epochs=1, dtype=dtype)
    list(plain := UnlearningRun(spec, workspace))
    delta = [new - old for new, old in zip(weights_of(plain), known_network.parameters(), strict=True)]

    def losses(scale: float) -> list[float]:
        """Return the forget loss and the retain loss at the start plus ``scale`` steps."""
        moved = copy.deepcopy(known_network).double()
        with torch.no_grad():
            for parameter, step in zip(moved.parameters(), delta, strict=True):
                parameter.add_(step.double(), alpha=scale)
        sets = workspace.train_sets
        return [float(torch.cat([exact_nll(moved, item) for item in items]).mean()) for items in sets]

    (_, zero), (forget_plus, plus), (forget_minus, minus) = losses(0.0), losses(1.0), losses(-1.0)
    slope, curvature = (minus - plus) / (2 * eta), (minus + plus - 2 * zero) / eta**2
    spec = replace(spec, auto_lr="gen", auto_lr_start=1, auto_lr_probe=probe)
    run = UnlearningRun(spec, workspace)
    (report,) = run
    assert report.training["auto_lr_slope"] == pytest.approx(slope, rel=1e-3)
    assert report.training["auto_lr_curvature"] == pytest.approx(curvature, rel=1e-2)
    assert report.training["lr"] == pytest.approx(slope / curvature, rel=1e-2)
    assert report.training["auto_lr_eta_star"] == pytest.approx(report.training["lr"], rel=1e-9)
    assert report.updates[0]["forget_plus"] == pytest.approx(forget_plus, rel=1e-4)
    assert report.updates[0]["forget_minus"] == pytest.approx(forget_minus, rel=1e-4)
    ratio = report.training["lr"] / eta
    for new, old, step in zip(weights_of(run), known_network.parameters(), delta, strict=True):
        torch.testing.assert_close(new, old.detach() + ratio * step, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("probe", ["same", "fresh"])
def test_probes_and_scores_are_taken_in_eval_mode_and_steps_in_train_mode(
    target: Target, make_network: Any, tokenizer: Any, make_spec: MakeSpec, tmp_path: Path, probe: str
) -> None:
    """With dropout, the training loss is not a point of the parabola, so AutoLR evaluates three losses."""
    save_model(make_network(resid_pdrop=0.3), tokenizer, tmp_path / "model")
    workspace = Workspace(replace(target, path=str(tmp_path / "model")), device="cpu")
    run = UnlearningRun(make_spec(auto_lr="curvature", auto_lr_probe=probe, max_steps=1), workspace)
    modes: list[tuple[bool, bool]] = []

    def note(model: Any, given: Any) -> None:
        modes.append((model.training, torch.is_grad_enabled()))

    hook = run.model.register_forward_pre_hook(note)
    next(run)
    hook.remove()
    assert set(modes) == {(True, True), (False, False)}
    assert [training for training, _ in modes[:5]] == [True, True, False, False, False]
    assert len(modes) > 5


def test_every_update_is_reported_once_with_the_losses_it_saw(start: Start) -> None:
    run = start(auto_lr="gen-clip", auto_lr_start=1, auto_lr_every=2, epochs=3, batch_size=2, lr=1e-4)
    *_, last = reports = list(run)
    updates = [update for report in reports for update in report.updates]
    assert [update["step"] for update in updates] == list(range(1, run.step + 1, 2))
    assert tuple(updates[0]) == ("step", *UPDATE_COLUMNS)
    first = updates[0]
    expected = Fit(first["eta"], first["loss_zero"], first["loss_plus"], first["loss_minus"])
    for name in ("slope", "curvature", "eta_star"):
        assert first[name] == getattr(expected, name)
    for before, after in itertools.pairwise(updates):  # nothing else changes the rate
        assert after["eta"] == before["eta_new"]
    accepted = sum(update["fallback"] is None for update in updates)
    outcome = Outcome.after(last, status=Status.FINISHED)
    assert (outcome.lr_updates, outcome.lr_updates_accepted) == (len(updates), accepted)
    reasons = Counter(update["fallback"] for update in updates if update["fallback"])
    names = {reason: f"auto_lr_{reason.replace(' ', '_')}" for reason in FALLBACKS}
    assert {reason: last.training[name] for reason, name in names.items()} == {name: reasons[name] for name in names}


def test_the_paper_s_rule_updates_at_the_steps_10_20_and_30(start: Start) -> None:
    run = start(auto_lr="gen", epochs=16, batch_size=4, lr=1e-5)
    updates = [update for report in run for update in report.updates]
    assert run.step == 32
    assert [update["step"] for update in updates] == [10, 20, 30]
    assert {update["probes"] for update in updates} == {2}


def test_a_landscape_changes_nothing_and_has_the_probed_losses(workspace: Workspace, make_spec: MakeSpec) -> None:
    """The forget loss at the probes changes nothing, either."""
    settings = {"auto_lr": "curvature", "auto_lr_every": 2, "epochs": 2, "batch_size": 2, "lr": 1e-4}
    spec = make_spec(**settings)
    silent = UnlearningRun(replace(spec, auto_lr_log_forget=False), workspace)
    assert {update["forget_plus"] for report in silent for update in report.updates} == {None}
    expected = weights_of(silent)
    looking = UnlearningRun(spec, workspace)
    looking.auto_lr.landscape_points = 9
    updates = [update for report in looking for update in report.updates]
    assert same_bits(weights_of(looking), expected)
    assert len(looking.auto_lr.landscape) == 3 * 9 * len(updates)
    for number, update in enumerate(updates):
        points = [point for point in looking.auto_lr.landscape if point["direction"] == "update"]
        points = points[9 * number : 9 * (number + 1)]
        xs = [point["x"] for point in points]
        assert xs == sorted(xs)
        assert xs[0] < 0.0 < xs[-1]
        near = np.interp([0.0, update["eta"], -update["eta"]], xs, [point["retain_loss"] for point in points])
        assert near[0] == pytest.approx(update["loss_zero"], rel=0.2)
        assert {point["step"] for point in points} == {update["step"]}


def test_a_probe_on_several_batches_is_the_mean_over_all_their_tokens(
    workspace: Workspace, make_spec: MakeSpec, exact_nll: Any
) -> None:
    """Each batch has one sequence, so four batches are four retain sequences. At least two of them differ."""
    spec = make_spec(auto_lr="curvature", max_steps=1, batch_size=1, auto_lr_probe_batches=4)
    run = UnlearningRun(spec, workspace)
    start = copy.deepcopy(run.model).double()
    (report,) = run
    chosen = [run.auto_lr._probes[number][0] for number in range(4, 8)]
    assert len(set(chosen)) > 1
    losses = torch.cat([exact_nll(start, workspace.train_sets[1][index]) for index in chosen])
    assert report.updates[0]["loss_zero"] == pytest.approx(float(losses.mean()), rel=1e-5)


def test_near_the_weights_the_losses_fall_along_their_own_gradients(workspace: Workspace, make_spec: MakeSpec) -> None:
    """At x = 0, all directions have the same losses. The slope along a gradient of a loss is positive for this loss."""
    spec = make_spec(auto_lr="gen", auto_lr_start=1, epochs=1, batch_size=2, lr=1e-6, max_steps=1)
    run = UnlearningRun(spec, workspace)
    run.auto_lr.landscape_points = 9  # the fourth point is at x = 0
    list(run)
    losses: dict[str, list[tuple[float, float, float]]] = {"update": [], "g_R": [], "g_F": []}
    for row in run.auto_lr.landscape:
        losses[row["direction"]].append((row["x"], row["retain_loss"], row["forget_loss"]))
    assert len({rows[3] for rows in losses.values()}) == 1
    assert losses["update"][3][0] == pytest.approx(0.0, abs=1e-12)
    before, after = losses["g_R"][2], losses["g_R"][4]
    assert after[1] < before[1], "the retain loss falls along g_R"
    before, after = losses["g_F"][2], losses["g_F"][4]
    assert after[2] > before[2], "the forget objective -L_F falls along g_F, so L_F rises"
