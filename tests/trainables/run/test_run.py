"""The steps of a run follow the method's formula, its batches depend on the seed, and its reports are correct."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PhiForCausalLM

from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits, weights_of
from trainables.methods import method_names
from trainables.metrics.registry import DEFAULT_SET, SETS
from trainables.run.reports import Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.target import Target
from trainables.text.tokens import Tokens

METHODS = (*method_names(), "npo+ngdiff")


def _losses_by_hand(model: torch.nn.Module, sequences: Sequence[Tokens]) -> list[Tensor]:
    """Return the NLL of each supervised token, computed one sequence at a time, with a graph."""
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
"""References that are not the target's own. With its own references, every margin of NPO would be 0."""


@pytest.fixture(scope="module")
def referred(target: Target) -> Workspace:
    """The workspace of the tiny problem with other reference likelihoods."""
    return Workspace(replace(target, reference_nll=REFERENCES), device="cpu")


@pytest.fixture(scope="module")
def gradients_by_hand(referred: Workspace, known_network: PhiForCausalLM, make_spec: MakeSpec) -> dict[str, Any]:
    """In float64: ``L_R``, ``L_F`` and the gradients of ``L_R``, ``-L_F`` and NPO(beta=0.5) over the whole sets."""
    model = copy.deepcopy(known_network).double().eval()
    forget, retain = referred.train_sets
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
    return {
        "gd": (1.0, 0.0),
        "ga": (0.0, 1.0),
        "gdiff": (0.7, 0.3),
        "lossnorm": (1 / known["L_R"], 1 / known["L_F"]),
        "ngdiff": (1 / rho, 1 / phi),
        "npo+ngdiff": (1 / rho, 1 / float(known["npo"].norm())),
    }[method]


ONE_STEP = ("gd", "ga", "gdiff", "lossnorm", "ngdiff", "npo+ngdiff")
WHOLE_SETS = {"batch_size": 8, "epochs": 1}


def moved(run: UnlearningRun, known: Mapping[str, Any]) -> Tensor:
    """Return the difference between the weights of a run and the target's weights."""
    return torch.cat([value.flatten().double() for value in weights_of(run)]) - known["start"]


@pytest.mark.parametrize("method", ONE_STEP)
def test_one_sgd_step_over_both_whole_sets_is_the_hand_computed_one(
    referred: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any], method: str
) -> None:
    """``theta - lr (w_r g_r + w_f g_f)``."""
    options = {"c": 0.7} if method.endswith("gdiff") and not method.endswith("ngdiff") else {}
    options |= {"beta": 0.5} if method.startswith("npo") else {}
    run = UnlearningRun(make_spec(method=method, options=options, optimizer="sgd", lr=1.0, **WHOLE_SETS), referred)
    (report,) = run
    w_r, w_f = _weights(method, gradients_by_hand)
    r, f = gradients_by_hand["r"], gradients_by_hand["npo" if method.startswith("npo") else "f"]
    expected = -(w_r * r + w_f * f)
    assert float((moved(run, gradients_by_hand) - expected).norm() / expected.norm()) < 1e-4
    assert report.step == 1
    assert report.training["c_t"] == pytest.approx(w_r / (w_r + w_f), rel=1e-4)
    assert report.training["grad_norm"] == pytest.approx(float(expected.norm()), rel=1e-4)
    if w_r:
        assert report.training["train_retain_loss"] == pytest.approx(gradients_by_hand["L_R"], rel=1e-5)
    if w_f and not method.startswith("npo"):
        assert report.training["train_forget_loss"] == pytest.approx(-gradients_by_hand["L_F"], rel=1e-5)
    if method.endswith("ngdiff"):
        assert report.training["grad_norm_retain"] == pytest.approx(float(r.norm()), rel=1e-4)
        assert report.training["grad_norm_forget"] == pytest.approx(float(f.norm()), rel=1e-4)
        assert report.training["grad_cosine"] == pytest.approx(float(r @ f / (r.norm() * f.norm())), abs=1e-4)


@pytest.mark.parametrize("change", [{"weight_scale": "unit"}, {"max_grad_norm": 0.01}], ids=["unit", "clipped"])
def test_the_weights_can_sum_to_one_and_the_direction_can_be_clipped(
    workspace: Workspace, make_spec: MakeSpec, gradients_by_hand: dict[str, Any], change: dict[str, Any]
) -> None:
    w_r, w_f = _weights("ngdiff", gradients_by_hand)
    expected = -(w_r * gradients_by_hand["r"] + w_f * gradients_by_hand["f"])
    expected *= 1 / (w_r + w_f) if "weight_scale" in change else 0.01 / expected.norm()
    list(run := UnlearningRun(make_spec(method="ngdiff", optimizer="sgd", lr=1.0, **WHOLE_SETS, **change), workspace))
    assert float((moved(run, gradients_by_hand) - expected).norm() / expected.norm()) < 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_to_finite_scores_and_forgets_where_it_should(
    start: Start, workspace: Workspace, method: str
) -> None:
    target = workspace.evaluator(batch_size=32).scores(workspace.model_for()).loss_metrics()
    options = {"c": 0.5} if method == "gdiff" else {}
    reports = list(start(method=method, options=options, lr=3e-3, epochs=3, eval_every=3))
    assert [report.epoch for report in reports] == [1.0, 2.0, 3.0]
    assert [report.step for report in reports] == [2, 4, 6]
    assert [report.status for report in reports] == [None, None, Status.FINISHED]
    for report in reports:
        assert all(math.isfinite(value) for value in report.row().values() if isinstance(value, float))
    last = reports[-1]
    other_words = {name for name in DEFAULT_SET if name.endswith("_rephrased")}
    assert set(last.metrics) == set(DEFAULT_SET) - {"knowmem", *other_words, *SETS["accuracy"]}
    assert not reports[0].metrics
    if method == "gd":
        assert last.losses["retain_loss"] < target["retain_loss"]
        assert last.metrics["utility"] == 1.0
    else:
        # RMU changes hidden states, and JensUn's gradient is small while a refusal is unlikely: the loss rises later.
        factor = 1 if method in ("rmu", "jensun") else 10
        assert last.losses["forget_loss"] > factor * target["forget_loss"]


@pytest.mark.parametrize(("max_steps", "steps", "epochs"), [(3, [2, 3], [1.0, 1.5]), (9, [2, 4], [1.0, 2.0])])
def test_max_steps_ends_a_run_even_inside_an_epoch(
    start: Start, max_steps: int, steps: list[int], epochs: list[float]
) -> None:
    run = start(max_steps=max_steps)
    reports = list(run)
    assert [report.step for report in reports] == steps
    assert [report.epoch for report in reports] == epochs
    assert reports[-1].status is Status.FINISHED
    assert reports[-1].metrics
    assert list(run) == []


def _batches_seen(
    spec: TrialSpec, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    forget, retain = workspace.train_sets
    seen: dict[int, list[tuple[int, ...]]] = {id(forget): [], id(retain): []}

    make_batch = workspace.batch

    def recording(items: Any, indices: Any) -> Any:
        seen[id(items)].append(tuple(indices))
        return make_batch(items, indices)

    with monkeypatch.context() as patched:
        patched.setattr(workspace, "batch", recording)
        list(UnlearningRun(spec, workspace))
    return seen[id(forget)], seen[id(retain)]


@pytest.fixture(scope="module")
def uneven(target: Target) -> Workspace:
    """A workspace with five questions to forget and eight questions to retain."""
    data = replace(target.data, forget=target.data.forget[:5], forget_eval=target.data.forget_eval[:5])
    return Workspace(replace(target, data=data, reference_nll=target.reference_nll[:5]), device="cpu")


def test_an_epoch_is_a_pass_over_the_forget_set_and_probes_are_batches_of_their_own(
    uneven: Workspace, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(batch_size=2, epochs=4)  # 3 forget batches an epoch; a retain pass is 4 batches
    forget, retain = _batches_seen(spec, uneven, monkeypatch)
    assert len(forget) == len(retain) == 12
    for epoch in range(4):
        assert sorted(index for batch in forget[3 * epoch : 3 * epoch + 3] for index in batch) == list(range(5))
    for passed in range(3):
        assert sorted(index for batch in retain[4 * passed : 4 * passed + 4] for index in batch) == list(range(8))
    fresh = replace(spec, auto_lr="gen-clip", auto_lr_every=1, auto_lr_start=1, auto_lr_log_forget=False)
    fresh = replace(fresh, auto_lr_probe="fresh", auto_lr_probe_batches=1)
    with_probes = _batches_seen(fresh, uneven, monkeypatch)
    assert with_probes[0] == forget
    assert with_probes[1][::2] == retain
    probes = with_probes[1][1::2]
    assert len(probes) == 12
    for trained_on in (retain, retain[1:]):  # neither the batch of this step nor of the next step
        assert sum(probe == batch for probe, batch in zip(probes, trained_on, strict=False)) <= 3
    # The forget loss at the probes is computed on the forget batch of the step.
    logged = _batches_seen(replace(fresh, auto_lr_log_forget=True), uneven, monkeypatch)
    assert logged[0][::2] == logged[0][1::2] == forget
    same = _batches_seen(replace(fresh, auto_lr_probe="same"), uneven, monkeypatch)
    assert same[1][1::2] == same[1][::2] == retain


def test_a_run_evaluated_less_often_ends_with_the_same_bits(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec(method="gdiff", lr=1e-3, epochs=5)
    whole = UnlearningRun(spec, workspace)
    everything = list(whole)
    expected = weights_of(whole)
    sparse = UnlearningRun(replace(spec, eval_every=2), workspace)
    reports = list(sparse)
    assert [report.evaluated for report in reports] == [False, True, False, True, True]
    assert [dict(report.losses) for report in reports] == [
        dict(like.losses) if report.evaluated else {} for report, like in zip(reports, everything, strict=True)
    ]
    assert same_bits(weights_of(sparse), expected)
    assert reports[-1].metrics == everything[-1].metrics
    assert ["retain_loss_se" in report.training for report in reports] == [False, True, False, True, True]
    assert [report.training["train_retain_loss"] for report in reports] == [
        report.training["train_retain_loss"] for report in everything
    ]


@pytest.mark.parametrize("auto_lr", ["off", "gen"])
def test_a_run_is_freed_without_the_garbage_collector(auto_lr: str, start: Start) -> None:
    """If a run were part of a reference cycle, its optimizer state would stay on the GPU beside the next run's."""
    gc.disable()
    try:
        run = start(epochs=1, auto_lr=auto_lr)
        list(run)
        seen = weakref.ref(run), weakref.ref(run.optimizer)
        del run
        assert [reference() for reference in seen] == [None, None]
    finally:
        gc.enable()


def test_ngdiff_and_imtl_g_differ_only_by_the_scale_of_their_weights(start: Start) -> None:
    """The weights of IMTL-G sum to 1. Under Adam, a scale that changes from step to step changes the result."""
    weights: dict[tuple[str, str], Tensor] = {}
    for method in ("ngdiff", "imtl-g"):
        for scale in ("raw", "unit"):
            run = start(method=method, weight_scale=scale, epochs=3, batch_size=2, lr=1e-3)
            list(run)
            weights[method, scale] = torch.cat([value.flatten() for value in weights_of(run)])
    distances = {key: float((value - weights["imtl-g", "raw"]).abs().max()) for key, value in weights.items()}
    assert max(distances["imtl-g", "unit"], distances["ngdiff", "unit"]) < 1e-6
    assert distances["ngdiff", "raw"] > 1e-5


def test_metrics_of_the_loss_pass_are_reported_at_each_evaluation(workspace: Workspace, make_spec: MakeSpec) -> None:
    spec = make_spec(epochs=4, eval_every=2, metrics=("utility", "extraction_strength", "leak_probability"))
    reports = list(UnlearningRun(spec, workspace))
    cheap = {"extraction_strength", "leak_probability"}
    assert [{*report.metrics} for report in reports] == [set(), cheap, set(), {"utility", *cheap}]
    whole = list(UnlearningRun(replace(spec, metrics_every=2), workspace))
    assert {name: whole[1].metrics[name] for name in cheap} == reports[1].metrics
    assert reports[3].metrics == whole[3].metrics


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_comparing_the_weights_with_the_target_does_not_change_the_run(
    workspace: Workspace, make_spec: MakeSpec, lora_rank: int | None
) -> None:
    spec = make_spec(epochs=2, lora_rank=lora_rank, metrics=("extraction_strength",))
    plain = UnlearningRun(spec, workspace)
    losses = [report.losses for report in plain]
    weights = [value.clone() for value in weights_of(plain)]
    start = [value.clone() for value in weights_of(UnlearningRun(spec, workspace))]
    run = UnlearningRun(replace(spec, metrics=("robustness",)), workspace)
    reports = list(run)
    assert [report.losses for report in reports] == losses
    assert same_bits(weights_of(run), weights)
    first, last = (report.metrics["target_distance"] for report in reports)
    assert 0.0 < first < last < 1.0
    assert all(0.0 < report.metrics["nf4_changed"] < 1.0 for report in reports)
    if lora_rank is None:
        moved = math.sqrt(sum(float((a - b).double().square().sum()) for a, b in zip(weights, start, strict=True)))
        norm = math.sqrt(sum(float(value.double().square().sum()) for value in start))
        assert last == pytest.approx(moved / norm, rel=1e-5)
