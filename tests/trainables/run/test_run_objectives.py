"""Each objective compares the model with the target and leaves the target unchanged."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, one_hot
from transformers import PhiForCausalLM

from tests.trainables.conftest import MakeSpec, Start
from trainables.data.errors import DataError
from trainables.data.refusals import refusal
from trainables.run.run import UnlearningRun
from trainables.run.step_losses import StepLosses
from trainables.run.workspace import Workspace
from trainables.spec_checks import trial_problems
from trainables.target.alternates import alternate_answers
from trainables.target.target import Target
from trainables.text.hidden import unit_direction
from trainables.text.scorer import TextScorer
from trainables.text.tokens import Tokens, encode


def _forward(model: PhiForCausalLM, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
    """Return the logits of the supervised tokens, these tokens, and the outputs of the first block, in float64."""
    precise = copy.deepcopy(model).double().eval()
    ids = torch.tensor([tokens.ids])
    with torch.no_grad():
        found = precise(input_ids=ids, output_hidden_states=True)
    return (
        found.logits[0, tokens.prompt_length - 1 : -1],
        ids[0, tokens.prompt_length :],
        found.hidden_states[1][0],
    )


def _nll(model: PhiForCausalLM, sequences: Sequence[Tokens]) -> list[float]:
    return [
        float(cross_entropy(logits, labels, reduction="sum"))
        for logits, labels, _ in (_forward(model, tokens) for tokens in sequences)
    ]


def moved_losses(start: Start, **changes: Any) -> tuple[StepLosses, Any]:
    """Return the losses of a spec for a model with some noise on the target's weights, and the model."""
    run, generator = start(**changes), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    return run.losses, run.model


INDICES = [5, 0, 4]


def test_dpo_compares_each_question_with_its_own_refusal_and_with_the_target(
    start: Start, workspace: Workspace, known_network: PhiForCausalLM, tokenizer: Any
) -> None:
    losses, model = moved_losses(start, method="dpo", options={"beta": 0.3})
    forget, _ = workspace.train_sets
    questions = [workspace.target.data.forget[index].question for index in INDICES]
    answers = [forget[index] for index in INDICES]
    refused = [encode(tokenizer, question, refusal(question), max_length=64) for question in questions]
    was_refused, now_refused, was, now = (
        torch.tensor(_nll(network, texts), dtype=torch.float64)
        for texts in (refused, answers)
        for network in (known_network, model)
    )
    gains = (was_refused - now_refused) - (was - now)
    expected = (2 / 0.3 * torch.log1p(torch.exp(-0.3 * gains))).mean()
    assert float(losses.forget(INDICES).detach()) == pytest.approx(float(expected), rel=1e-4)


def test_altpo_is_dpo_with_the_next_alternate_answers_in_each_pass(
    start: Start, workspace: Workspace, known_network: PhiForCausalLM, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = workspace.target.data.forget
    texts = [f"{number} times {data[number % 7].answer}" for number in range(2 * len(data))]
    monkeypatch.setattr("trainables.run.workspace.alternate_answers", lambda *_, **options: texts)
    losses, model = moved_losses(start, method="altpo+ga", options={"beta": 0.3}, seed=99)
    forget, _ = workspace.train_sets
    values = []
    for number in range(3):  # the third pass uses the first answers again
        losses.pass_number = number
        first = number % 2 * len(data)
        preferred = [encode(tokenizer, data[index].question, texts[first + index], max_length=64) for index in INDICES]
        was_preferred, now_preferred, was, now = (
            torch.tensor(_nll(network, sequences), dtype=torch.float64)
            for sequences in (preferred, [forget[index] for index in INDICES])
            for network in (known_network, model)
        )
        gains = (was_preferred - now_preferred) - (was - now)
        expected = (2 / 0.3 * torch.log1p(torch.exp(-0.3 * gains))).mean()
        values.append(float(losses.forget(INDICES).detach()))
        assert values[-1] == pytest.approx(float(expected), rel=1e-4)
    assert values[0] == values[2] != values[1]


def test_the_target_makes_five_alternates_of_each_answer_once_per_seed(
    workspace: Workspace, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[str] = []
    sample = TextScorer.sampled_answers

    def recorded(self: TextScorer, model: Any, prompts: Any, **options: Any) -> list[list[str]]:
        asked.extend(self.decode(prompts))
        return sample(self, model, prompts, **options)

    monkeypatch.setattr(TextScorer, "sampled_answers", recorded)
    evaluator: Any = workspace.evaluator(batch_size=8)
    before = torch.get_rng_state()

    def ask(seed: int) -> list[str]:
        return alternate_answers(workspace.model_for(), workspace.target, evaluator.scorer, seed=seed)

    first, data = ask(1), workspace.target.data.forget
    assert (len(asked), len(first)) == (len(data), 5 * len(data))
    assert data[3].question in asked[3]
    assert data[3].answer in asked[3]
    assert "another version of the answer" in asked[3]
    assert ask(1) == first
    assert len(asked) == len(data), "the answers come from the cache"
    assert ask(2) != first
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert ask(1) == first, "the same seed gives the same answers"
    assert torch.equal(torch.get_rng_state(), before)


def test_alternates_are_sorted_by_their_number_and_end_before_the_next_question(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def samples(self: TextScorer, model: Any, prompts: Any, *, n: int, **_: Any) -> list[list[str]]:
        return [[f" {row} {number}. Q: Who?" for number in range(n)] for row in range(len(prompts))]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(TextScorer, "sampled_answers", samples)
    evaluator: Any = workspace.evaluator(batch_size=8)
    answers = alternate_answers(workspace.model_for(), workspace.target, evaluator.scorer, seed=0)
    assert answers == [f"{row} {number}." for number in range(5) for row in range(len(workspace.target.data.forget))]


def test_alternates_need_room_in_the_models_context(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("trainables.target.alternates.position_limit", lambda _: 20)
    evaluator: Any = workspace.evaluator(batch_size=8)
    with pytest.raises(DataError, match="the model accepts 20, so no version can be written"):
        alternate_answers(workspace.model_for(), workspace.target, evaluator.scorer, seed=0)


@pytest.mark.parametrize("method", ["dpo", "flat", "altpo"])
def test_an_objective_that_prefers_other_answers_is_refused_for_texts(
    target: Target, make_spec: MakeSpec, method: str
) -> None:
    (problem,) = trial_problems(replace(make_spec(method=method), dataset="muse-news"))
    assert f"'{method}'" in problem
    assert "muse-news" in problem
    texts = replace(target.data, forget=tuple(replace(item, question="") for item in target.data.forget))
    with pytest.raises(DataError, match="forget set has texts"):
        UnlearningRun(make_spec(method=method), Workspace(replace(target, data=texts), device="cpu"))


def test_flat_compares_the_mean_probabilities_of_an_answers_tokens_and_of_its_own_refusals(
    start: Start, workspace: Workspace, tokenizer: Any
) -> None:
    losses, model = moved_losses(start, method="flat")
    forget, _ = workspace.train_sets
    questions = [workspace.target.data.forget[index].question for index in INDICES]
    refused = [encode(tokenizer, question, refusal(question), max_length=64) for question in questions]

    def means(sequences: Sequence[Tokens]) -> Tensor:
        found = (_forward(model, tokens) for tokens in sequences)
        return torch.stack([z.softmax(dim=1).gather(1, labels[:, None]).mean() for z, labels, _ in found])

    expected = 0.5 * (means([forget[index] for index in INDICES]).tanh() - means(refused).tanh()).mean()
    assert float(losses.forget(INDICES).detach()) == pytest.approx(float(expected), rel=1e-4)


def test_undial_and_kl_compare_with_the_targets_predictions(
    start: Start, workspace: Workspace, known_network: PhiForCausalLM
) -> None:
    losses, model = moved_losses(start, method="undial+ngdiff", options={"beta": 4.0}, retain_objective="kl")
    forget, retain = workspace.train_sets
    distilled, divergences = [], []
    for index in INDICES:
        logits, labels, _ = _forward(model, forget[index])
        soft = (_forward(known_network, forget[index])[0] - 4.0 * one_hot(labels, logits.shape[1])).softmax(dim=1)
        distilled.append(cross_entropy(logits, soft, reduction="none"))
        log_p = _forward(model, retain[index])[0].log_softmax(dim=1)
        p_target = _forward(known_network, retain[index])[0].softmax(dim=1)
        divergences.append(kl_div(log_p, p_target, reduction="none").sum(dim=1))
    assert float(losses.forget(INDICES).detach()) == pytest.approx(float(torch.cat(distilled).mean()), rel=1e-4)
    assert float(losses.retain(INDICES).detach()) == pytest.approx(float(torch.cat(divergences).mean()), rel=1e-4)


def test_jensun_repeats_the_tokens_of_its_refusal_over_each_answer_and_js_compares_with_the_target(
    start: Start, workspace: Workspace, known_network: PhiForCausalLM, tokenizer: Any
) -> None:
    losses, model = moved_losses(start, method="jensun", retain_objective="js")
    forget, retain = workspace.train_sets
    text = tokenizer("Answer: No idea", add_special_tokens=False).input_ids
    refusal_tokens = text[len(tokenizer("Answer:", add_special_tokens=False).input_ids) :]
    assert len(refusal_tokens) > 1
    refused, divergences = [], []
    for index in INDICES:
        logits, labels, _ = _forward(model, forget[index])
        repeated = torch.tensor([refusal_tokens[place % len(refusal_tokens)] for place in range(len(labels))])
        refused += _divergences(logits.softmax(dim=1), one_hot(repeated, logits.shape[1]))
        predictions = (_forward(network, retain[index])[0].softmax(dim=1) for network in (model, known_network))
        divergences += _divergences(*predictions)
    assert float(losses.forget(INDICES).detach()) == pytest.approx(sum(refused) / len(refused), rel=1e-4)
    assert float(losses.retain(INDICES).detach()) == pytest.approx(sum(divergences) / len(divergences), rel=1e-4)


def _divergences(p: Tensor, q: Tensor) -> list[float]:
    return [float(jensenshannon(one, other)) ** 2 for one, other in zip(p.tolist(), q.tolist(), strict=True)]


def test_rmu_steers_every_token_to_the_seeds_direction_and_keeps_the_retain_sets_states(
    start: Start, workspace: Workspace, known_network: PhiForCausalLM
) -> None:
    losses, model = moved_losses(start, method="rmu+ngdiff", options={"scale": 3.0, "layer": 0}, seed=4)
    forget, retain = workspace.train_sets

    def states(network: PhiForCausalLM, sequences: Sequence[Tokens]) -> Tensor:
        return torch.cat([_forward(network, sequences[index])[2] for index in INDICES])

    aim = 3.0 * unit_direction(32, seed=4).double()
    steered = (states(model, forget) - aim).square().sum(dim=1).mean()
    assert float(losses.forget(INDICES).detach()) == pytest.approx(float(steered), rel=1e-4)
    kept = (states(model, retain) - states(known_network, retain)).square().sum(dim=1).mean()
    assert float(losses.retain(INDICES).detach()) == pytest.approx(float(kept), rel=1e-4)


def test_the_adapter_switched_off_is_the_frozen_copy(start: Start, workspace: Workspace) -> None:
    ids = torch.arange(20)[None, :]

    def targets_logits() -> Tensor:
        with workspace.frozen_target() as target:
            return target(input_ids=ids).logits

    workspace.model_for()
    copied = targets_logits()
    run = start(method="undial", lora_rank=2, lr=2e-2)
    assert torch.equal(targets_logits(), copied)
    list(run)
    assert torch.equal(targets_logits(), copied)
    assert run.model.training
    assert all(parameter.requires_grad for parameter in run.parameters)
    with torch.no_grad():
        assert not torch.allclose(run.model(input_ids=ids).logits, copied, atol=1e-2)


def test_a_resumed_run_compares_with_the_values_it_started_with(
    target: Target, workspace: Workspace, make_spec: MakeSpec
) -> None:
    """The values on another machine may differ in the last digits, so the state contains the values."""
    spec = make_spec(method="dpo", epochs=3)
    run = UnlearningRun(spec, workspace)
    next(run)
    state = run.state_dict()
    expected = [report.losses for report in run]
    elsewhere = Workspace(replace(target, reference_nll=tuple(1.1 * nll for nll in target.reference_nll)), device="cpu")
    resumed = UnlearningRun(spec, elsewhere)
    resumed.load_state_dict(state)
    assert [report.losses for report in resumed] == expected


def test_autolr_probes_cross_entropy_under_every_retain_objective(workspace: Workspace, make_spec: MakeSpec) -> None:
    """At the first step, the model is the target, so the KL divergence and the distance of hidden states are 0."""
    for changes in ({"method": "ngdiff"}, {"method": "ngdiff", "retain_objective": "kl"}, {"method": "rmu"}):
        spec = make_spec(**changes, auto_lr="gen", auto_lr_start=1, batch_size=8, max_steps=1)
        (report,) = UnlearningRun(spec, workspace)
        start = workspace.evaluator(batch_size=32).scores(workspace.model_for()).loss_metrics()
        assert report.updates[0]["loss_zero"] == pytest.approx(start["retain_loss"], rel=1e-5)


def test_an_impossible_objective_is_refused_before_the_first_step(start: Start) -> None:
    with pytest.raises(ValueError, match=r"layer .*0 to 1.* 2 decoder blocks, got 2"):
        start(method="rmu", options={"layer": 2})
