"""A run's steps are the ones the method's formula says, and its outcome is a function of its spec alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PhiForCausalLM

from trainables.checkpoints import save_model
from trainables.reports import Report, Status
from trainables.run import UnlearningRun
from trainables.spec import TrialSpec
from trainables.target import Target
from trainables.tokens import Tokens, collate
from trainables.workspace import Workspace

MakeSpec = Callable[..., TrialSpec]

METHODS = ("gd", "ga", "gdiff", "lossnorm", "rlw", "pcgrad", "imtl-g", "ngdiff", "npo", "npo+ngdiff")


def finish(run: UnlearningRun) -> list[Report]:
    return list(run)


def weights_of(run: UnlearningRun) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.parameters]


def without_times(reports: Sequence[Report]) -> list[dict[str, Any]]:
    rows = [{**report.row(), **report.outcome()} for report in reports]
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]


def equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


# One step, by hand ---------------------------------------------------------------------------------------------------


def _losses_by_hand(model: torch.nn.Module, sequences: Sequence[Tokens]) -> list[Tensor]:
    """The NLL of each supervised token of each sequence, one sequence at a time, with a graph."""
    losses = []
    for tokens in sequences:
        ids = torch.tensor([tokens.ids])
        log_p = torch.log_softmax(model(input_ids=ids).logits[0, :-1].double(), dim=-1)
        nll = -log_p[torch.arange(len(tokens) - 1), ids[0, 1:]]
        losses.append(nll[tokens.prompt_length - 1 :])
    return losses


def _flat_gradient(loss: Tensor, model: torch.nn.Module) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


REFERENCES = tuple(0.5 * number for number in range(8))
"""Not the target's own: those would make every margin of NPO 0, whichever example they were taken for."""


@pytest.fixture(scope="module")
def referred(target: Target) -> Workspace:
    """The tiny problem with other reference likelihoods."""
    return Workspace(replace(target, reference_nll=REFERENCES), device="cpu")


@pytest.fixture(scope="module")
def gradients_by_hand(referred: Workspace, known_network: PhiForCausalLM, make_spec: MakeSpec) -> dict[str, Any]:
    """float64: ``L_R``, ``L_F`` and the gradients of ``L_R``, ``-L_F`` and NPO(beta=0.5) over the whole sets."""
    model = copy.deepcopy(known_network).double().eval()
    forget, retain = referred.train_sets(make_spec())
    mean_r = torch.cat(_losses_by_hand(model, retain)).mean()
    mean_f = torch.cat(_losses_by_hand(model, forget)).mean()
    sums = torch.stack([nll.sum() for nll in _losses_by_hand(model, forget)])
    margins = 0.5 * (sums - torch.tensor(REFERENCES, dtype=torch.float64))
    npo = torch.log1p(torch.exp(-margins)).mean() * (2 / 0.5)
    return {
        "L_R": float(mean_r),
        "L_F": float(mean_f),
        "r": _flat_gradient(mean_r, model),
        "f": _flat_gradient(-mean_f, model),
        "npo": _flat_gradient(npo, model),
        "start": torch.cat([parameter.detach().flatten() for parameter in model.parameters()]),
    }


def _weights(method: str, known: Mapping[str, Any]) -> tuple[float, float]:
    rho, phi = float(known["r"].norm()), float(known["f"].norm())
    conflict = max(-float(known["r"] @ known["f"]), 0.0)
    return {
        "gd": (1.0, 0.0),
        "ga": (0.0, 1.0),
        "gdiff": (0.7, 0.3),
        "lossnorm": (1 / known["L_R"], 1 / known["L_F"]),
        "ngdiff": (1 / rho, 1 / phi),
        "imtl-g": (phi / (rho + phi), rho / (rho + phi)),
        "pcgrad": (1 + conflict / rho**2, 1 + conflict / phi**2),
        "npo": (0.0, 1.0),
        "npo+gdiff": (0.7, 0.3),
        "npo+ngdiff": (1 / rho, 1 / float(known["npo"].norm())),
    }[method]


ONE_STEP = ("gd", "ga", "gdiff", "lossnorm", "ngdiff", "imtl-g", "pcgrad", "npo", "npo+gdiff", "npo+ngdiff")


@pytest.mark.parametrize("method", ONE_STEP)
def test_one_sgd_step_over_both_whole_sets_is_the_hand_computed_one(
    referred: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any], method: str
) -> None:
    """``theta - lr (w_r g_r + w_f g_f)``."""
    options = {"c": 0.7} if method.endswith("gdiff") and not method.endswith("ngdiff") else {}
    options |= {"beta": 0.5} if method.startswith("npo") else {}
    spec = make_spec(method=method, options=options, optimizer="sgd", lr=1.0, batch_size=8, epochs=1)
    run = UnlearningRun(spec, referred)
    (report,) = finish(run)
    w_r, w_f = _weights(method, gradients_by_hand)
    forget = gradients_by_hand["npo" if method.startswith("npo") else "f"]
    expected = -(w_r * gradients_by_hand["r"] + w_f * forget)
    moved = torch.cat([value.flatten().double() for value in weights_of(run)]) - gradients_by_hand["start"]
    assert float((moved - expected).norm() / expected.norm()) < 1e-4
    assert report.step == 1
    assert report.training["c_t"] == pytest.approx(w_r / (w_r + w_f), rel=1e-4)
    assert report.training["grad_norm"] == pytest.approx(float(expected.norm()), rel=1e-4)
    if w_r:
        assert report.training["train_retain_loss"] == pytest.approx(gradients_by_hand["L_R"], rel=1e-5)
    if w_f and not method.startswith("npo"):
        assert report.training["train_forget_loss"] == pytest.approx(-gradients_by_hand["L_F"], rel=1e-5)


def test_the_report_has_both_norms_and_the_cosine(
    workspace: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any]
) -> None:
    (report,) = finish(UnlearningRun(make_spec(method="ngdiff", batch_size=8, epochs=1), workspace))
    r, f = gradients_by_hand["r"], gradients_by_hand["f"]
    assert report.training["grad_norm_retain"] == pytest.approx(float(r.norm()), rel=1e-4)
    assert report.training["grad_norm_forget"] == pytest.approx(float(f.norm()), rel=1e-4)
    assert report.training["grad_cosine"] == pytest.approx(float(r @ f / (r.norm() * f.norm())), abs=1e-4)


def test_weights_of_unit_scale_sum_to_one_along_the_same_direction(
    workspace: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any]
) -> None:
    w_r, w_f = _weights("ngdiff", gradients_by_hand)
    expected = -(w_r * gradients_by_hand["r"] + w_f * gradients_by_hand["f"]) / (w_r + w_f)
    spec = make_spec(method="ngdiff", weight_scale="unit", optimizer="sgd", lr=1.0, batch_size=8, epochs=1)
    run = UnlearningRun(spec, workspace)
    finish(run)
    moved = torch.cat([value.flatten().double() for value in weights_of(run)]) - gradients_by_hand["start"]
    assert float((moved - expected).norm() / expected.norm()) < 1e-4


def test_clipping_shortens_the_combined_direction(
    workspace: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any]
) -> None:
    spec = make_spec(method="ngdiff", max_grad_norm=0.01, optimizer="sgd", lr=0.5, batch_size=8, epochs=1)
    run = UnlearningRun(spec, workspace)
    finish(run)
    moved = torch.cat([value.flatten().double() for value in weights_of(run)]) - gradients_by_hand["start"]
    assert float(moved.norm()) == pytest.approx(0.5 * 0.01, rel=1e-3)


# AutoLR in a run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("probe", "dtype"), [("same", "fp32"), ("fresh", "fp32"), ("same", "bf16"), ("fresh", "bf16")])
def test_an_auto_lr_step_is_the_adamw_step_at_the_rate_of_the_fitted_parabola(
    workspace: Workspace, make_spec: MakeSpec, known_network: PhiForCausalLM, probe: str, dtype: str
) -> None:
    """One batch is the whole retain set, so that both kinds of probe see the same.

    Under bf16 too the parabola is that of the float32 weights: bf16 does not resolve such a step, and autocast's
    cached weights would not even show it.
    """
    eta = 3e-4
    spec = make_spec(method="gd", lr=eta, batch_size=8, epochs=1, dtype=dtype)
    plain = UnlearningRun(spec, workspace)
    finish(plain)
    delta = [new - old for new, old in zip(weights_of(plain), known_network.parameters(), strict=True)]

    def retain_loss(scale: float) -> float:
        moved = copy.deepcopy(known_network).double()
        with torch.no_grad():
            for parameter, step in zip(moved.parameters(), delta, strict=True):
                parameter.add_(step.double(), alpha=scale)
            return float(torch.cat(_losses_by_hand(moved, workspace.train_sets(spec)[1])).mean())

    zero, plus, minus = retain_loss(0.0), retain_loss(1.0), retain_loss(-1.0)
    slope, curvature = (minus - plus) / (2 * eta), (minus + plus - 2 * zero) / eta**2
    spec = replace(spec, auto_lr="on", auto_lr_every=1, auto_lr_probe=probe, auto_lr_smoothing="paper")
    run = UnlearningRun(spec, workspace)
    (report,) = finish(run)
    assert report.training["auto_lr_slope"] == pytest.approx(slope, rel=1e-3)
    assert report.training["auto_lr_curvature"] == pytest.approx(curvature, rel=1e-2)
    assert report.training["lr"] == pytest.approx(slope / curvature, rel=1e-2)
    assert report.training["auto_lr_eta_star"] == pytest.approx(report.training["lr"], rel=1e-9)
    ratio = report.training["lr"] / eta
    for new, old, step in zip(weights_of(run), known_network.parameters(), delta, strict=True):
        torch.testing.assert_close(new, old.detach() + ratio * step, rtol=1e-5, atol=1e-7)


def test_auto_lr_is_due_as_asked_and_counts_what_it_did(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec(method="ngdiff", batch_size=2, epochs=2, auto_lr="on", auto_lr_every=3, auto_lr_start=2)
    first, second = finish(UnlearningRun(spec, workspace))  # four steps each: due at 2, 5 and 8
    names = ("auto_lr_updates", "auto_lr_not_finite", "auto_lr_no_descent", "auto_lr_no_curvature")
    assert [sum(report.training[name] for name in names) for report in (first, second)] == [1.0, 3.0]


def test_auto_lr_forgets_a_rate_that_is_far_too_small(workspace: Workspace, make_spec: MakeSpec) -> None:
    changes = {"method": "gd", "lr": 1e-6, "batch_size": 8, "epochs": 12}
    slow = finish(UnlearningRun(make_spec(**changes), workspace))[-1]
    spec = make_spec(**changes, auto_lr="on", auto_lr_every=1, auto_lr_smoothing="clip")
    adapted = finish(UnlearningRun(spec, workspace))[-1]
    assert adapted.training["lr"] > 50 * slow.training["lr"]
    assert adapted.losses["retain_loss"] < slow.losses["retain_loss"]


# Whole runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_to_finite_scores_and_forgets_where_it_should(
    workspace: Workspace, make_spec: MakeSpec, method: str
) -> None:
    start = workspace.evaluator(make_spec()).losses(workspace.model_for(make_spec()))
    options = {"c": 0.5} if method == "gdiff" else {}
    reports = finish(UnlearningRun(make_spec(method=method, options=options, lr=3e-3, epochs=3), workspace))
    assert [report.epoch for report in reports] == [1.0, 2.0, 3.0]
    assert [report.step for report in reports] == [2, 4, 6]
    assert [report.status for report in reports] == [None, None, Status.FINISHED]
    for report in reports:
        numbers = [value for value in report.row().values() if isinstance(value, float)]
        assert all(map(math.isfinite, numbers))
        assert all(math.isfinite(value) for value in report.training.values())
    last = reports[-1]
    assert set(last.final) == {"verbmem", "utility", "truth_ratio", "forget_truth_ratio"}
    assert not reports[0].final
    if method == "gd":
        assert last.losses["retain_loss"] < start["retain_loss"]
        assert last.final["utility"] == 1.0
    else:
        assert last.losses["forget_loss"] > 10 * start["forget_loss"]


def test_a_method_that_keeps_the_retain_set_keeps_more_of_it_than_ascent(
    workspace: Workspace, make_spec: MakeSpec
) -> None:
    losses = {
        method: finish(UnlearningRun(make_spec(method=method, lr=3e-3, epochs=4), workspace))[-1].losses
        for method in ("ga", "ngdiff")
    }
    assert losses["ngdiff"]["retain_loss"] < losses["ga"]["retain_loss"] / 2


def test_the_last_report_is_that_of_the_model_handed_over(workspace: Workspace, make_spec: MakeSpec) -> None:
    run = UnlearningRun(make_spec(method="ngdiff", lr=3e-3), workspace)
    last = finish(run)[-1]
    evaluator = workspace.evaluator(run.spec)
    assert evaluator.losses(run.model) == last.losses
    assert evaluator.final(run.model) == last.final


@pytest.mark.parametrize(
    ("max_steps", "steps", "epochs"), [(3, [2, 3], [1.0, 1.5]), (1, [1], [0.5]), (9, [2, 4], [1.0, 2.0])]
)
def test_max_steps_ends_a_run_also_inside_an_epoch(
    workspace: Workspace, make_spec: MakeSpec, max_steps: int, steps: list[int], epochs: list[float]
) -> None:
    run = UnlearningRun(make_spec(max_steps=max_steps), workspace)
    reports = finish(run)
    assert [report.step for report in reports] == steps
    assert [report.epoch for report in reports] == epochs
    assert reports[-1].status is Status.FINISHED
    assert reports[-1].final
    assert list(run) == []


def test_rows_carry_what_history_and_trials_need(workspace: Workspace, make_spec: MakeSpec) -> None:
    last = finish(UnlearningRun(make_spec(method="ngdiff"), workspace))[-1]
    history = {"step", "epoch", "lr", "c_t", "grad_norm", "forget_loss", "retain_loss", "verbmem", "seconds"}
    assert history <= set(last.row())
    outcome = last.outcome()
    assert (outcome["status"], outcome["steps"], outcome["epochs_done"], outcome["error"]) == ("finished", 4, 2.0, None)
    assert outcome["train_seconds"] == last.train_seconds > 0.0
    assert outcome["eval_seconds"] == last.eval_seconds > 0.0


# Batches -------------------------------------------------------------------------------------------------------------


def _batches_seen(
    spec: TrialSpec, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The forget batches and the retain batches of a run, in order."""
    forget, retain = workspace.train_sets(spec)
    seen: dict[int, list[tuple[int, ...]]] = {id(forget): [], id(retain): []}

    def recording(sequences: Any, indices: Any, **named: Any) -> Any:
        seen[id(sequences)].append(tuple(indices))
        return collate(sequences, indices, **named)

    with monkeypatch.context() as patched:
        patched.setattr("trainables.run.collate", recording)
        finish(UnlearningRun(spec, workspace))
    return seen[id(forget)], seen[id(retain)]


@pytest.fixture(scope="module")
def uneven(target: Target) -> Workspace:
    """Five questions to forget, eight to keep."""
    data = replace(target.data, forget=target.data.forget[:5], forget_eval=target.data.forget_eval[:5])
    return Workspace(replace(target, data=data, reference_nll=target.reference_nll[:5]), device="cpu")


def test_an_epoch_is_a_pass_over_the_forget_set_beside_endless_passes_over_the_retain_set(
    uneven: Workspace, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(batch_size=2, epochs=4)  # 3 forget batches an epoch; a retain pass is 4 batches
    forget, retain = _batches_seen(spec, uneven, monkeypatch)
    assert len(forget) == len(retain) == 12
    for epoch in range(4):
        assert sorted(index for batch in forget[3 * epoch : 3 * epoch + 3] for index in batch) == list(range(5))
    for passed in range(3):
        assert sorted(index for batch in retain[4 * passed : 4 * passed + 4] for index in batch) == list(range(8))
    assert len({tuple(retain[4 * passed : 4 * passed + 4]) for passed in range(3)}) == 3


def test_probes_are_batches_of_their_own_and_change_nothing_about_the_others(
    uneven: Workspace, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(batch_size=2, epochs=4)
    forget, retain = _batches_seen(spec, uneven, monkeypatch)
    fresh = replace(spec, auto_lr="on", auto_lr_every=1, auto_lr_probe="fresh")
    with_probes = _batches_seen(fresh, uneven, monkeypatch)
    assert with_probes[0] == forget
    assert with_probes[1][::2] == retain
    probes = with_probes[1][1::2]
    assert len(probes) == 12
    assert sum(probe == batch for probe, batch in zip(probes, retain, strict=True)) <= 3
    same = _batches_seen(replace(fresh, auto_lr_probe="same"), uneven, monkeypatch)
    assert same[1][1::2] == same[1][::2] == retain


def test_the_seed_decides_the_batches(
    workspace: Workspace, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again, other = (
        _batches_seen(make_spec(batch_size=2, seed=seed), workspace, monkeypatch) for seed in (0, 0, 1)
    )
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


# Determinism and resumption ------------------------------------------------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "fixed lr": {"method": "ngdiff"},
    "AutoLR, fresh probes": {"method": "ngdiff", "auto_lr": "on", "auto_lr_every": 1},
    "AutoLR, same probes": {"method": "gdiff", "auto_lr": "on", "auto_lr_every": 2, "auto_lr_probe": "same"},
    "SGD with momentum": {"method": "pcgrad", "optimizer": "sgd", "momentum": 0.9, "lr": 0.02},
    "rlw": {"method": "rlw"},
    "gradnorm": {"method": "gradnorm"},
    "gradvac": {"method": "gradvac"},
    "npo": {"method": "npo+ngdiff"},
    "LoRA": {"method": "ngdiff", "lora_rank": 2, "lr": 1e-2},
    "bf16": {"method": "gdiff", "dtype": "bf16"},
    "max_steps": {"method": "ngdiff", "max_steps": 5},
}


@pytest.fixture(params=VARIANTS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def variant(request: pytest.FixtureRequest, make_spec: MakeSpec) -> TrialSpec:
    return make_spec(**{"epochs": 3, "lr": 2e-3, **VARIANTS[request.param]})


def test_the_same_spec_gives_the_same_bits_also_saved_and_resumed_after_any_epoch(
    workspace: Workspace, target: Target, variant: TrialSpec, tmp_path: Path
) -> None:
    whole = UnlearningRun(variant, workspace)
    expected = finish(whole)
    weights = weights_of(whole)
    again = UnlearningRun(variant, workspace)
    assert without_times(finish(again)) == without_times(expected)
    assert equal(weights_of(again), weights)
    for epoch in range(len(expected)):
        interrupted = UnlearningRun(variant, workspace)
        before = [next(interrupted) for _ in range(epoch)]
        torch.save(interrupted.state_dict(), tmp_path / "state.pt")
        elsewhere = Workspace(target, device="cpu") if epoch == 1 else workspace
        torch.manual_seed(99)
        resumed = UnlearningRun(variant, elsewhere)
        resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert without_times([*before, *finish(resumed)]) == without_times(expected)
        assert equal(weights_of(resumed), weights)


def test_dropout_resumes_with_the_same_draws(
    target: Target, make_network: Any, tokenizer: Any, make_spec: MakeSpec, tmp_path: Path
) -> None:
    save_model(make_network(resid_pdrop=0.3), tokenizer, tmp_path / "model")
    workspace = Workspace(replace(target, path=str(tmp_path / "model")), device="cpu")
    spec = make_spec(method="ngdiff", auto_lr="on", auto_lr_every=1, auto_lr_probe="same")
    whole = UnlearningRun(spec, workspace)
    expected = without_times(finish(whole))
    weights = weights_of(whole)
    interrupted = UnlearningRun(spec, workspace)
    next(interrupted)
    state = interrupted.state_dict()
    torch.manual_seed(99)
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(state)
    assert without_times(finish(resumed)) == expected[1:]
    assert equal(weights_of(resumed), weights)


def test_a_state_is_a_snapshot_that_later_steps_do_not_change(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec(method="ngdiff", epochs=3, lr=2e-3)
    run = UnlearningRun(spec, workspace)
    next(run)
    state = run.state_dict()
    rest = finish(run)
    weights = weights_of(run)
    for _ in range(2):
        resumed = UnlearningRun(spec, workspace)
        resumed.load_state_dict(state)
        assert without_times(finish(resumed)) == without_times(rest)
        assert equal(weights_of(resumed), weights)


def test_the_state_of_a_finished_run_has_nothing_left_to_do(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec()
    run = UnlearningRun(spec, workspace)
    finish(run)
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(run.state_dict())
    assert list(resumed) == []


def test_the_state_of_another_spec_is_refused(workspace: Workspace, make_spec: MakeSpec) -> None:
    state = UnlearningRun(make_spec(seed=0), workspace).state_dict()
    run = UnlearningRun(make_spec(seed=1), workspace)
    with pytest.raises(ValueError, match=f"belongs to spec {state['spec_hash']}, not to {run.spec.spec_hash}"):
        run.load_state_dict(state)


@pytest.mark.parametrize("before", [{"method": "ga", "lr": 1e30}, {"method": "ngdiff", "lora_rank": 2, "lr": 0.1}])
def test_a_trial_does_not_change_what_the_next_one_computes(
    workspace: Workspace, target: Target, make_spec: MakeSpec, before: dict[str, Any]
) -> None:
    spec = make_spec(method="ngdiff")
    alone = UnlearningRun(spec, Workspace(target, device="cpu"))
    expected = without_times(finish(alone))
    finish(UnlearningRun(make_spec(**before), workspace))
    run = UnlearningRun(spec, workspace)
    assert without_times(finish(run)) == expected
    assert equal(weights_of(run), weights_of(alone))


# Divergence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gd", "ga", "gdiff", "ngdiff", "npo"])
@pytest.mark.parametrize("auto_lr", ["off", "on"])
def test_a_huge_rate_ends_the_run_as_diverged(
    workspace: Workspace, make_spec: MakeSpec, method: str, auto_lr: str
) -> None:
    spec = make_spec(method=method, lr=1e30, auto_lr=auto_lr, auto_lr_every=1)
    reports = finish(UnlearningRun(spec, workspace))
    assert len(reports) == 1
    last = reports[-1]
    assert last.status is Status.DIVERGED
    assert last.error is not None
    assert any(word in last.error for word in ("nan", "inf"))
    assert "step" in last.error
    assert (dict(last.losses), dict(last.final)) == ({}, {})
    assert last.outcome()["status"] == "diverged"


def test_a_run_that_diverges_later_keeps_its_last_finite_losses(workspace: Workspace, make_spec: MakeSpec) -> None:
    run = UnlearningRun(make_spec(method="ngdiff", epochs=5), workspace)
    first = next(run)
    run.optimizer.param_groups[0]["lr"] = 1e30
    last = next(run)
    assert last.status is Status.DIVERGED
    assert last.losses == first.losses
    assert last.step > first.step
    assert list(run) == []


def test_a_diverged_run_says_so_again_after_a_resumption(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec(method="ga", lr=1e30)
    run = UnlearningRun(spec, workspace)
    start = run.state_dict()
    (expected,) = finish(run)
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(start)
    assert without_times(finish(resumed)) == without_times([expected])


# LoRA ----------------------------------------------------------------------------------------------------------------


def test_lora_leaves_the_base_alone_and_its_checkpoint_is_an_adapter_peft_loads(
    workspace: Workspace, target: Target, make_spec: MakeSpec, known_network: PhiForCausalLM, tmp_path: Path
) -> None:
    from peft import PeftModel

    run = UnlearningRun(make_spec(method="ngdiff", lora_rank=2, lr=2e-2), workspace)
    last = finish(run)[-1]
    kept = {
        name.replace("base_model.model.", "").replace(".base_layer", ""): value
        for name, value in run.model.state_dict().items()
        if "lora_" not in name
    }
    assert all(torch.equal(kept[name], value) for name, value in known_network.state_dict().items())
    save_model(run.model, workspace.tokenizer, tmp_path / "adapter")
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(target.path), tmp_path / "adapter")
    ids = torch.arange(20)[None, :]
    with torch.no_grad():
        torch.testing.assert_close(loaded(input_ids=ids).logits, run.model.eval()(input_ids=ids).logits)
        assert not torch.allclose(loaded(input_ids=ids).logits, known_network(input_ids=ids).logits, atol=1e-2)
    assert workspace.evaluator(run.spec).losses(loaded) == pytest.approx(last.losses, rel=1e-5)
