"""Unlearning runs of a classifier: a step by hand, batch statistics, resumption, refusals."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.facts import assert_names
from tests.trainables.conftest import MakeSpec, Start
from tests.trainables.runs import same_bits
from trainables.data.images import ImageSet
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec_checks import trial_problems

AUTO_LR = {"auto_lr": "gen-clip", "auto_lr_every": 1, "auto_lr_start": 1}


def test_a_step_of_sgd_is_the_one_computed_by_hand(
    start: Start, workspace: Workspace, network: Any, plain_input: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[tuple[ImageSet, Any]] = []
    make_batch = workspace.batch

    def recording(items: Any, indices: Any) -> Any:
        batches.append((items, items.rows[list(indices)]))
        return make_batch(items, indices)

    monkeypatch.setattr(workspace, "batch", recording)
    lr, c = 0.05, 0.7
    list(run := start(method="gdiff", options={"c": c}, optimizer="sgd", lr=lr, max_steps=1))
    assert [items.labels[0] == 3 for items, _ in batches] == [False, True], "first the retain set, then the threes"
    model = copy.deepcopy(network).train()
    before = copy.deepcopy(model)
    losses = []
    for items, rows in batches:  # in this order: batch statistics are updated by both
        values, labels = plain_input(items, rows)
        losses.append(cross_entropy(model(pixel_values=values).logits, labels))
    (c * losses[0] - (1 - c) * losses[1]).backward()
    mine, after = run.model.state_dict(), model.state_dict()
    for name, value in model.named_parameters():
        torch.testing.assert_close(mine[name], (value - lr * value.grad).detach(), rtol=1e-4, atol=1e-6, msg=name)
    for name, buffer in before.named_buffers():
        torch.testing.assert_close(mine[name], after[name], rtol=1e-4, atol=1e-6, msg=name)
        assert not torch.equal(after[name], buffer), f"{name} did not move, so nothing was tested"


@pytest.mark.parametrize("probe", ["same", "fresh"])
def test_auto_lr_probes_leave_the_batch_statistics_bit_for_bit(probe: str, start: Start) -> None:
    states = []
    for changes in ({}, {**AUTO_LR, "auto_lr_probe": probe}):
        list(run := start(method="ngdiff", max_steps=1, **changes))
        states.append([buffer.clone() for buffer in run.model.buffers()])
    assert states[0]
    assert same_bits(*states)


def test_auto_lr_probes_even_the_first_loss_in_eval_mode(start: Start) -> None:
    """The loss of the training step was computed in train mode, so it is not a point of the parabola."""
    run = start(method="ngdiff", max_steps=1, auto_lr_probe="same", **AUTO_LR)
    modes: list[bool] = []
    run.model.register_forward_pre_hook(lambda model, given: modes.append(model.training))
    list(run)
    assert modes[:5] == [True, True, False, False, False]
    assert run.model.training


@pytest.mark.parametrize(
    "changes",
    [{"method": "ngdiff", **AUTO_LR}, {"method": "npo+gradnorm", "optimizer": "sgd"}],
    ids=["ngdiff with AutoLR", "npo+gradnorm by SGD"],
)
def test_a_resumed_or_repeated_run_equals_an_undisturbed_one_bit_for_bit(
    changes: dict[str, Any], start: Start, workspace: Workspace, make_spec: MakeSpec, tmp_path: Path
) -> None:
    spec = make_spec(epochs=3, **changes)
    whole = UnlearningRun(spec, workspace)
    reports = list(whole)
    expected = whole.state_dict()
    part = UnlearningRun(spec, workspace)
    assert next(part).losses == reports[0].losses, "the first run's batch statistics are not those of the second"
    torch.save(part.state_dict(), tmp_path / "state.pt")
    list(start(seed=9))  # another trial uses the model meanwhile
    resumed = UnlearningRun(spec, workspace)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    rest = list(resumed)
    assert [report.losses for report in rest] == [report.losses for report in reports[1:]]
    assert rest[-1].metrics == reports[-1].metrics
    found = resumed.state_dict()
    for name in ("parameters", "buffers"):
        assert same_bits(found[name], expected[name]), name


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        *(({"method": method}, [(f"'{method}'", "digits")]) for method in ("dpo", "rmu+ngdiff")),
        ({"model": "tiny-phi"}, [("tiny-phi", "digits", "language", "authors, tofu, ")]),
        ({"model": "resnet-50", "dataset": "tofu"}, [("resnet-50", "tofu", "vision", "digits, cifar-10, cifar-100")]),
        ({"gradient_checkpointing": True}, [("gradient_checkpointing",)]),
        ({"model": "resnet-50", "dataset": "cifar-10", "forget_class": "dog"}, []),
    ],
)
def test_settings_that_do_not_apply_to_the_modality_are_refused(
    changes: dict[str, Any], facts: list[tuple[str, ...]], make_spec: MakeSpec
) -> None:
    for problem, named in zip(sorted(trial_problems(make_spec(**changes))), facts, strict=True):
        assert_names(problem, *named)
