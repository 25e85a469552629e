"""The result of a run depends only on its spec, even if the run was interrupted or follows another trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, PhiForCausalLM

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits, weights_of, without_times
from trainables.models.checkpoints import save_model
from trainables.optimizers import LR_FREE
from trainables.run.reports import Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems
from trainables.target.target import Target

EVERY_STEP: dict[str, Any] = {"auto_lr_start": 1, "auto_lr_every": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "AutoLR, fresh probes": {"method": "ngdiff", "auto_lr": "gen", "auto_lr_probe": "fresh", **EVERY_STEP},
    "SGD with momentum": {"method": "pcgrad", "optimizer": "sgd", "momentum": 0.9, "lr": 0.02},
    "rlw": {"method": "rlw"},
    "rotograd": {"method": "rotograd"},
    "gru": {"method": "gru", "lr": 5e-3},
    "dpo": {"method": "dpo+gradnorm"},
    "altpo": {"method": "altpo"},
    "rmu": {"method": "rmu+ngdiff", "auto_lr": "gen-trust", "auto_lr_every": 2, "auto_lr_start": 1},
    "kl": {"method": "gdiff", "retain_objective": "kl", "auto_lr": "gen", "auto_lr_every": 2, "auto_lr_start": 1},
    "undial under LoRA": {"method": "undial", "lora_rank": 2, "lr": 1e-2},
    "undial in bf16 with checkpointing": {"method": "undial", "dtype": "bf16", "gradient_checkpointing": True},
    "orthograd in micro-batches": {"method": "orthograd", "micro_batch": 2, "lr": 5e-3},
    "jensun": {"method": "jensun", "retain_objective": "js", "lr": 1e-2},
    "max-logit": {"method": "max-logit", "lr": 1e-2},
    "repselect": {"method": "npo+ngdiff", "update": "repselect", "repselect_adapter_lr": 0.1, "lr": 1e-2},
    "sam under LoRA": {"method": "npo+ngdiff", "update": "sam", "lora_rank": 2, "lr": 1e-2},
    "sign": {"method": "ngdiff", "update": "sign", "auto_lr": "gen", "auto_lr_every": 2, "lr": 1e-3},
    "sign of SGD": {"method": "ngdiff", "update": "sign", "optimizer": "sgd", "momentum": 0.9, "lr": 1e-3},
    "max_steps": {"method": "ngdiff", "max_steps": 5},
    "decay, restart, interpolation": {
        "method": "ngdiff",
        "auto_lr": "curvature",
        "auto_lr_every": 2,
        "lr": 1e-2,
        "lr_decay": "linear",
        "on_divergence": "restart",
        "interpolate": "on",
    },
    **{name: {"method": "graddrop", "optimizer": name, "lr": 1.0, "d_growth": 2.0} for name in LR_FREE},
}


@pytest.fixture(scope="module")
def workspace(half_scored: Workspace) -> Workspace:
    return half_scored


@pytest.fixture(params=VARIANTS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def variant(request: pytest.FixtureRequest, make_spec: MakeSpec) -> TrialSpec:
    return make_spec(**{"epochs": 3, "lr": 2e-3, **VARIANTS[request.param]})


def test_the_same_spec_gives_the_same_bits_even_saved_and_resumed_after_any_epoch(
    workspace: Workspace, variant: TrialSpec, tmp_path: Path
) -> None:
    start = workspace.evaluator(batch_size=32).scores(workspace.model_for()).loss_metrics()
    whole = UnlearningRun(variant, workspace)
    expected = []
    for epoch in range(variant.epochs):
        torch.save(whole.state_dict(), tmp_path / f"{epoch}.pt")
        expected.append(next(whole))
    assert list(whole) == []
    weights = weights_of(whole)
    assert trial_problems(variant) == []
    assert ("distance" in expected[-1].training) is (variant.optimizer in LR_FREE)
    assert expected[-1].losses["forget_loss"] > (1.3 if variant.optimizer == "adamw" else 1.0) * start["forget_loss"]
    for epoch in range(variant.epochs):
        elsewhere = Workspace(workspace.target, device="cpu") if epoch == 1 else workspace
        torch.manual_seed(99)
        resumed = UnlearningRun(variant, elsewhere)
        resumed.load_state_dict(torch.load(tmp_path / f"{epoch}.pt", weights_only=True))
        assert without_times(list(resumed)) == without_times(expected[epoch:])
        assert same_bits(weights_of(resumed), weights)


def test_a_state_is_a_snapshot_that_later_steps_do_not_change_with_the_random_state_for_dropout(
    target: Target, make_network: Any, tokenizer: Any, make_spec: MakeSpec, tmp_path: Path
) -> None:
    save_model(make_network(resid_pdrop=0.3), tokenizer, tmp_path / "model")
    workspace = Workspace(replace(target, path=str(tmp_path / "model")), device="cpu")
    spec = make_spec(method="ngdiff", auto_lr="gen", **EVERY_STEP, epochs=3)
    run = UnlearningRun(spec, workspace)
    next(run)
    state = run.state_dict()
    rest, weights = without_times(list(run)), weights_of(run)
    for seed in (98, 99):
        torch.manual_seed(seed)
        resumed = UnlearningRun(spec, workspace)
        resumed.load_state_dict(state)
        assert without_times(list(resumed)) == rest
        assert same_bits(resumed.parameters, weights)
    (finished := UnlearningRun(spec, workspace)).load_state_dict(resumed.state_dict())
    assert list(finished) == []


def test_the_state_of_another_spec_is_refused(start: Start) -> None:
    state = start(seed=0).state_dict()
    run = start(seed=1)
    with pytest.raises(ValueError, match=f"{state['spec_hash']}.*{run.spec.spec_hash}"):
        run.load_state_dict(state)


@pytest.mark.parametrize(("method", "auto_lr"), [("gd", "gen"), ("ga", "off"), ("ngdiff", "gen")])
def test_a_huge_rate_ends_the_run_as_diverged_even_after_a_resumption(
    workspace: Workspace, make_spec: MakeSpec, method: str, auto_lr: str
) -> None:
    spec = make_spec(method=method, lr=1e30, auto_lr=auto_lr, **EVERY_STEP)
    run = UnlearningRun(spec, workspace)
    start = run.state_dict()
    (last,) = run
    assert last.status is Status.DIVERGED
    assert last.error is not None
    assert any(word in last.error for word in ("nan", "inf"))
    assert "step" in last.error
    assert (dict(last.losses), dict(last.metrics)) == ({}, {})
    assert last.status is Status.DIVERGED
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(start)
    assert without_times(list(resumed)) == without_times([last])


def test_a_run_that_diverges_later_keeps_its_last_finite_losses(start: Start) -> None:
    run = start(method="ngdiff", epochs=5)
    first = next(run)
    run.rate = 1e30
    last = next(run)
    assert last.status is Status.DIVERGED
    assert last.losses == first.losses
    assert last.step > first.step
    assert list(run) == []


def test_lora_leaves_the_base_alone_and_its_checkpoint_is_an_adapter_peft_loads(
    start: Start, workspace: Workspace, target: Target, known_network: PhiForCausalLM, tmp_path: Path
) -> None:
    from peft import PeftModel

    run = start(method="ngdiff", lora_rank=2, lr=2e-2)
    last = list(run)[-1]
    kept = {
        name.replace("base_model.model.", "").replace(".base_layer", ""): value
        for name, value in run.model.state_dict().items()
        if "lora_" not in name
    }
    assert all(torch.equal(kept[name], value) for name, value in known_network.state_dict().items())
    save_model(run.model, workspace.processor, tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(target.path), tmp_path / "adapter")
    losses = workspace.evaluator(batch_size=32).scores(loaded).loss_metrics()
    assert losses == pytest.approx(last.losses, rel=1e-5)
    assert losses["forget_loss"] > 0.03, "twice the target's"


def test_a_run_that_stops_at_an_epoch_has_the_bits_of_the_longer_run_at_this_epoch(
    workspace: Workspace, variant: TrialSpec
) -> None:
    """The schedule (decay, and interpolation at the end) stays that of the longer run, and the metrics are measured."""
    whole = UnlearningRun(variant, workspace)
    expected_reports, expected_weights = [], []
    for report in whole:
        expected_reports.append(report)
        expected_weights.append(weights_of(whole))
        if report.epoch >= 2.0:
            break
    shorter = UnlearningRun(replace(variant, stop_epoch=expected_reports[-1].epoch), workspace)
    *before, last = list(shorter)
    assert without_times(before) == without_times(expected_reports[:-1])
    assert (last.status, last.epoch, last.losses) == (
        Status.FINISHED, expected_reports[-1].epoch, expected_reports[-1].losses,
    )  # fmt: skip
    assert last.metrics, "the metrics are measured at the end of the shorter run"
    assert same_bits(weights_of(shorter), expected_weights[-1])
