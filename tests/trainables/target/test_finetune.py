"""Fine-tuning ends when the data are memorised, fails if they never are, and follows its schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from trainables.data.examples import UnlearningData
from trainables.models.registry import MODELS, TargetRecipe
from trainables.scoring.language import Evaluator
from trainables.spec import TrialSpec
from trainables.target.cache import TargetError
from trainables.target.target import TargetSpec
from trainables.target.training import MEMORISED_LOSS, Progress, finetune
from trainables.text.tokens import encode_examples

QUICK = TargetRecipe(lr=1e-2, batch_size=8, epochs=150, stop_when_memorised=True)
FIXED = TargetRecipe(lr=1e-3, batch_size=8, epochs=20, stop_when_memorised=False)

Finetune = Callable[..., int]


@pytest.fixture
def run_finetune(tiny_data: UnlearningData, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Finetune:
    """Return a function that fine-tunes a model on the tiny data. ``memorised`` replaces the evaluator's method."""

    def run(
        model: Any, recipe: TargetRecipe, *, memorised: Any = lambda trained: True, seed: int = 0, **changes: Any
    ) -> int:
        monkeypatch.setattr(Evaluator, "memorised", lambda self, trained: memorised(trained))
        data = changes.pop("data", tiny_data)
        trial = TrialSpec(max_length=changes.pop("max_length", 64), target_seed=seed)
        spec = TargetSpec(trial=trial, info=MODELS["tiny-phi"], recipe=recipe, data=data)
        values: dict[str, Any] = {"data": data, "on_progress": lambda progress: None, **changes}
        return finetune(model, tokenizer, spec, **values)

    return run


def test_training_ends_once_the_data_are_memorised(
    make_network: Any, run_finetune: Finetune, tiny_data: UnlearningData, tokenizer: Any, exact_nll: Any
) -> None:
    sequences = encode_examples(tokenizer, tiny_data.full, max_length=64)
    asked: list[float] = []

    def memorised(trained: Any) -> bool:
        asked.append(float(torch.cat([exact_nll(trained, item) for item in sequences]).mean()))
        return len(asked) == 3

    epochs = run_finetune(make_network(), QUICK, memorised=memorised)
    assert len(asked) == 3
    assert all(loss < MEMORISED_LOSS for loss in asked)
    assert 3 < epochs < QUICK.epochs


def test_a_target_that_never_memorises_is_an_error(make_network: Any, run_finetune: Finetune) -> None:
    def memorised(trained: Any) -> bool:
        raise AssertionError("asked although the loss is high")

    recipe = replace(QUICK, lr=1e-3, epochs=3)
    with pytest.raises(TargetError, match=r"3 epochs: .*--target-epochs"):
        run_finetune(make_network(), recipe, memorised=memorised)
    with pytest.raises(TargetError, match=r"3 epochs \(\d+ of 16 answers are cut, because --max-length is 12\): .*"):
        run_finetune(make_network(), recipe, memorised=memorised, max_length=12)


def test_the_rate_warms_up_over_a_twentieth_and_then_falls_linearly(
    make_network: Any, run_finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    seen: list[Progress] = []
    step = torch.optim.AdamW.step

    def recording(self: Any, *arguments: Any, **named: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **named)

    monkeypatch.setattr(torch.optim.AdamW, "step", recording)
    recipe = replace(FIXED, batch_size=5, epochs=10)  # the fourth batch of an epoch has one of the 16 items
    assert run_finetune(make_network(), recipe, on_progress=seen.append) == 10
    assert rates == pytest.approx([0.5e-3, 1e-3, *(1e-3 * left / 39 for left in range(38, 0, -1))])
    assert [(progress.done, progress.total) for progress in seen] == [(4 * epoch, 40) for epoch in range(1, 11)]
    losses = [float(progress.text.split()[-1]) for progress in seen]
    assert losses[0] > losses[1] > losses[2]


def test_a_loss_that_is_not_finite_is_an_error_with_the_epoch_and_the_rate(
    make_network: Any, run_finetune: Finetune
) -> None:
    with pytest.raises(TargetError, match=r"(nan|inf) in epoch \d.*1e\+25"):
        run_finetune(make_network(), replace(FIXED, lr=1e25, epochs=9))
    broken = make_network()
    with torch.no_grad():
        broken.lm_head.bias.fill_(math.inf)
    with pytest.raises(TargetError, match="nan in epoch 1"):
        run_finetune(broken, QUICK)


def test_the_result_is_a_function_of_the_seed_even_with_dropout(make_network: Any, run_finetune: Finetune) -> None:
    trained = []
    for global_seed, seed in ((1, 0), (2, 0), (2, 7)):
        model = make_network(resid_pdrop=0.2)
        torch.manual_seed(global_seed)
        run_finetune(model, replace(FIXED, batch_size=5, epochs=2), seed=seed)
        trained.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[1], trained[2])
