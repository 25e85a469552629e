"""The evaluator's numbers against token-by-token float64 losses, greedy answers and the published formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, SETS
from trainables.text.generation import generate_greedy
from trainables.text.tokens import encode, encode_examples


def test_losses_are_means_over_tokens_in_float64(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, exact_nll: Any
) -> None:
    def mean(examples: Sequence[Example]) -> float:
        parts = [exact_nll(half_known, item) for item in encode_examples(tokenizer, examples, max_length=64)]
        return float(torch.cat(parts).mean())

    found = make_evaluator().losses(half_known)
    assert tuple(found) == LOSS_METRICS
    assert found["forget_loss"] == pytest.approx(mean(tiny_data.forget), rel=1e-5)
    assert found["retain_loss"] == pytest.approx(mean(tiny_data.retain), rel=1e-5)


def test_the_agreement_is_the_share_of_each_answer_before_the_first_wrong_token(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """Against greedy answers, generated one token after the other."""
    evaluator = make_evaluator()
    assert math.isnan(evaluator.retain_agreement)
    evaluator.losses(half_known)
    shares = []
    for item in encode_examples(tokenizer, tiny_data.retain, max_length=64):
        said, answer = list(item.prompt), item.ids[item.prompt_length :]
        for token in answer:
            logits = half_known(torch.tensor([said])).logits[0, -1]
            if int(logits.argmax()) != token:
                break
            said.append(token)
        shares.append((len(said) - item.prompt_length) / len(answer))
    assert evaluator.retain_agreement == pytest.approx(float(np.mean(shares)), rel=1e-12)
    assert 0.0 < evaluator.retain_agreement < 1.0


@pytest.mark.parametrize("scale", [1.0, 200.0, 1e6])
def test_every_token_of_the_forget_set_counts_for_at_most_a_random_guess(
    make_evaluator: MakeEvaluator,
    make_network: Any,
    tokenizer: Any,
    tiny_data: UnlearningData,
    exact_nll: Any,
    scale: float,
) -> None:
    """Against every token's loss in float64, with a mean far above the guess."""
    model = make_network(seed=2)
    with torch.no_grad():
        model.lm_head.weight.mul_(scale)
        model.lm_head.bias[tokenizer.eos_token_id] = 1e8 if scale > 1 else 0.0
    evaluator = make_evaluator()
    found, guess = evaluator.losses(model), evaluator.random_guess
    assert guess == pytest.approx(math.log(len(tokenizer)))
    each = torch.cat([exact_nll(model, item) for item in encode_examples(tokenizer, tiny_data.forget, max_length=64)])
    assert found["forget_loss"] == pytest.approx(float(each.mean()), rel=1e-5)
    assert found["forget_loss_capped"] == pytest.approx(float(each.clamp(max=guess).mean()), rel=1e-5)
    if scale > 1:
        assert found["forget_loss"] > 2 * guess > 2 * found["forget_loss_capped"]


def test_losses_that_are_not_finite_are_nan_and_never_the_cap(
    make_evaluator: MakeEvaluator, make_network: Any, tokenizer: Any
) -> None:
    """NaN in the weights, and an answer token of probability zero."""
    not_a_number, impossible = make_network(), make_network()
    with torch.no_grad():
        not_a_number.lm_head.weight.fill_(math.nan)
        impossible.lm_head.bias[tokenizer.eos_token_id] = -math.inf
    for model in (not_a_number, impossible):
        assert all(math.isnan(value) for value in make_evaluator().losses(model).values())


def test_verbmem_and_utility_are_the_mean_rouge_of_greedy_answers(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    scorer = RougeScorer(["rougeL"], use_stemmer=True)

    def mean_recall(examples: Sequence[Example]) -> float:
        sequences = encode_examples(tokenizer, examples, max_length=64)
        longest = max(len(item) - item.prompt_length for item in sequences)
        prompts = [item.prompt for item in sequences]
        answers = generate_greedy(
            half_known, tokenizer, prompts, max_new_tokens=longest, batch_size=1, device=torch.device("cpu")
        )
        pairs = zip(examples, answers, strict=True)
        return float(np.mean([scorer.score(example.answer, said)["rougeL"].recall for example, said in pairs]))

    evaluator = make_evaluator()
    found = evaluator.measure(half_known).metrics
    assert found["verbmem"] == pytest.approx(mean_recall(tiny_data.forget), rel=1e-12)
    assert found["utility"] == pytest.approx(mean_recall(tiny_data.retain), rel=1e-12)
    assert 0.2 < found["verbmem"] < 1.0 > found["utility"]
    assert evaluator.verbmem(half_known) == found["verbmem"]


def test_truth_ratios_compare_the_paraphrase_with_the_wrong_answers(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, exact_nll: Any
) -> None:
    """SCIENCE.md, section 5: ``exp(loss_paraphrased - mean_k loss_perturbed_k)``, losses per token."""

    def ratios(examples: Sequence[Example]) -> list[float]:
        def loss(question: str, answer: str) -> float:
            return float(exact_nll(half_known, encode(tokenizer, question, answer, max_length=64)).mean())

        return [
            math.exp(
                loss(example.question, example.paraphrased_answer)
                - sum(loss(example.question, wrong) for wrong in example.perturbed_answers) / 2
            )
            for example in examples
        ]

    found = make_evaluator().measure(half_known).metrics
    assert set(found) == set(DEFAULT_SET) - {"knowmem", *SETS["accuracy"]}
    on_retain, on_forget = ratios(tiny_data.retain_eval), ratios(tiny_data.forget_eval)
    assert found["truth_ratio"] == pytest.approx(sum(max(0.0, 1 - r) for r in on_retain) / 8, rel=1e-4)
    assert found["forget_truth_ratio"] == pytest.approx(sum(min(r, 1 / r) for r in on_forget) / 8, rel=1e-4)


def test_the_truth_ratio_is_left_out_if_there_are_no_wrong_answers(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData
) -> None:
    plain = tuple(replace(example, perturbed_answers=()) for example in tiny_data.retain)
    found = make_evaluator(replace(tiny_data, retain_eval=plain)).measure(known_network).metrics
    assert set(found) == set(DEFAULT_SET) - {"knowmem", "truth_ratio", *SETS["accuracy"]}


def test_a_network_that_knows_the_data_has_no_loss_and_full_recall(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM
) -> None:
    evaluator = make_evaluator()
    scores = {**evaluator.losses(known_network), **evaluator.measure(known_network).metrics}
    assert max(scores["forget_loss"], scores["retain_loss"]) < 0.05
    assert scores["forget_loss_capped"] == scores["forget_loss"], "no token is above a random guess"
    assert (scores["verbmem"], scores["utility"]) == (1.0, 1.0)
    assert scores["truth_ratio"] > 0.5 > scores["forget_truth_ratio"]


def test_the_batch_size_of_the_evaluation_does_not_matter(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM
) -> None:
    one, many = (make_evaluator(batch_size=batch_size) for batch_size in (1, 64))
    assert one.losses(half_known) == pytest.approx(many.losses(half_known), rel=1e-5)
    assert one.measure(half_known).metrics == pytest.approx(many.measure(half_known).metrics, rel=1e-4)
