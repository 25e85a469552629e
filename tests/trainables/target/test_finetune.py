"""Fine-tuning ends when the data are memorised, is an error if they never are, and follows its schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.facts import assert_names
from trainables.data.examples import Example, UnlearningData
from trainables.modality.language import Language
from trainables.models.registry import TargetRecipe
from trainables.target.finetune import MEMORISED_LOSS, NotMemorised, Progress, TargetError, finetune
from trainables.target.training import contradictions
from trainables.text.tokens import Tokens, encode_examples

QUICK = TargetRecipe(lr=1e-2, batch_size=8, epochs=150, stop_when_memorised=True)
FIXED = TargetRecipe(lr=1e-3, batch_size=8, epochs=20, stop_when_memorised=False)

Finetune = Callable[..., int]


@pytest.fixture(scope="module")
def sequences(tokenizer: Any, tiny_data: UnlearningData) -> tuple[Tokens, ...]:
    return encode_examples(tokenizer, tiny_data.full, max_length=64)


@pytest.fixture
def run_finetune(sequences: tuple[Tokens, ...], tokenizer: Any) -> Finetune:
    """:func:`finetune` on the tiny data; ``memorised`` says yes."""

    def run(model: Any, recipe: TargetRecipe, **changes: Any) -> int:
        values: dict[str, Any] = {
            "recipe": recipe,
            "modality": Language(),
            "processor": tokenizer,
            "device": "cpu",
            "seed": 0,
            "memorised": lambda trained: True,
            "on_progress": lambda progress: None,
            **changes,
        }
        return finetune(model, sequences, **values)

    return run


def test_training_ends_once_the_data_are_memorised(
    make_network: Any, run_finetune: Finetune, sequences: tuple[Tokens, ...], exact_nll: Any
) -> None:
    model, asked = make_network(), []

    def memorised(trained: Any) -> bool:
        asked.append(float(torch.cat([exact_nll(trained, item) for item in sequences]).mean()))
        return len(asked) == 3

    epochs = run_finetune(model, QUICK, memorised=memorised)
    assert len(asked) == 3
    assert all(loss < MEMORISED_LOSS for loss in asked)
    assert 3 < epochs < QUICK.epochs


def test_a_target_that_never_memorises_is_an_error(make_network: Any, run_finetune: Finetune) -> None:
    def memorised(trained: Any) -> bool:
        raise AssertionError("asked although the loss is high")

    with pytest.raises(NotMemorised, match="3 epochs"):
        run_finetune(make_network(), replace(QUICK, lr=1e-3, epochs=3), memorised=memorised)


def test_questions_with_several_answers_are_named_if_the_data_are_not_memorised() -> None:
    data: Any = SimpleNamespace(full=[Example("Who?", "Ada"), Example("Where?", "here"), Example("Where?", "here")])
    assert contradictions(data) == ""
    data.full.append(Example("Where?", "there"))
    assert_names(contradictions(data), "1 question ", "'Where?'")


def test_a_recipe_with_a_fixed_length_runs_to_its_end(make_network: Any, run_finetune: Finetune) -> None:
    seen: list[Progress] = []
    assert run_finetune(make_network(), replace(FIXED, batch_size=5, epochs=3), on_progress=seen.append) == 3
    assert [(progress.done, progress.total) for progress in seen] == [(4, 12), (8, 12), (12, 12)]
    losses = [float(progress.text.split()[-1]) for progress in seen]
    assert losses[0] > losses[1] > losses[2]


def test_the_rate_warms_up_over_a_twentieth_and_then_falls_linearly(
    make_network: Any, run_finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    step = torch.optim.AdamW.step

    def recording(self: Any, *arguments: Any, **named: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **named)

    monkeypatch.setattr(torch.optim.AdamW, "step", recording)
    run_finetune(make_network(), FIXED)
    assert rates == pytest.approx([0.5e-3, 1e-3, *(1e-3 * left / 39 for left in range(38, 0, -1))])


def test_a_loss_that_is_not_finite_is_an_error_with_the_epoch_and_the_rate(
    make_network: Any, run_finetune: Finetune
) -> None:
    with pytest.raises(TargetError, match=r"(nan|inf) in epoch \d: .*1e\+25"):
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
        run_finetune(model, replace(FIXED, batch_size=4, epochs=2), seed=seed)
        trained.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[1], trained[2])
