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

from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, SETS
from trainables.scoring.evaluator import Evaluator
from trainables.text.generation import generate_greedy
from trainables.text.tokens import encode, encode_examples


def _evaluator(data: UnlearningData, tokenizer: Any, batch_size: int = 5) -> Evaluator:
    return Evaluator(
        data, tokenizer, vocabulary_size=len(tokenizer), max_length=64, batch_size=batch_size, device="cpu"
    )


def test_losses_are_means_over_tokens_in_float64(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, exact_nll: Any
) -> None:
    def mean(examples: Sequence[Example]) -> float:
        parts = [exact_nll(half_known, item) for item in encode_examples(tokenizer, examples, max_length=64)]
        return float(torch.cat(parts).mean())

    found = _evaluator(tiny_data, tokenizer).losses(half_known)
    assert tuple(found) == LOSS_METRICS
    assert found["forget_loss"] == pytest.approx(mean(tiny_data.forget), rel=1e-5)
    assert found["retain_loss"] == pytest.approx(mean(tiny_data.retain), rel=1e-5)


def test_the_agreement_is_how_much_of_each_answer_is_said_before_the_first_wrong_token(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """Against greedy answers, made one token after the other."""
    evaluator = _evaluator(tiny_data, tokenizer)
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
    assert 0.0 < evaluator.retain_agreement < 1.0, "all or nothing would tell little"


def test_where_no_token_is_above_a_random_guess_the_capped_loss_is_the_loss(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    found = _evaluator(tiny_data, tokenizer).losses(known_network)
    assert found["forget_loss_capped"] == found["forget_loss"]


@pytest.mark.parametrize("scale", [1.0, 200.0, 1e6])
def test_every_token_of_the_forget_set_counts_for_at_most_a_random_guess(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData, exact_nll: Any, scale: float
) -> None:
    """Against every token's loss in float64: the mean is far above the guess, and what is still known is seen."""
    ruined = make_network(seed=2)
    with torch.no_grad():
        ruined.lm_head.weight.mul_(scale)
        ruined.lm_head.bias[tokenizer.eos_token_id] = 1e8 if scale > 1 else 0.0
    evaluator = _evaluator(tiny_data, tokenizer)
    found, guess = evaluator.losses(ruined), evaluator.random_guess
    assert guess == pytest.approx(math.log(len(tokenizer)))
    each = torch.cat([exact_nll(ruined, item) for item in encode_examples(tokenizer, tiny_data.forget, max_length=64)])
    assert found["forget_loss"] == pytest.approx(float(each.mean()), rel=1e-5)
    assert found["forget_loss_capped"] == pytest.approx(float(each.clamp(max=guess).mean()), rel=1e-5)
    if scale > 1:
        assert found["forget_loss"] > 2 * guess > 2 * found["forget_loss_capped"]


def test_losses_that_are_not_finite_are_nan_and_never_the_cap(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """NaN in the weights, and an answer token of probability zero."""
    not_a_number, impossible = make_network(), make_network()
    with torch.no_grad():
        not_a_number.lm_head.weight.fill_(math.nan)
        impossible.lm_head.bias[tokenizer.eos_token_id] = -math.inf
    for model in (not_a_number, impossible):
        assert all(math.isnan(value) for value in _evaluator(tiny_data, tokenizer).losses(model).values())


def test_verbmem_and_utility_are_the_mean_rouge_of_greedy_answers(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    scorer = RougeScorer(["rougeL"], use_stemmer=True)

    def mean_recall(examples: Sequence[Example]) -> float:
        sequences = encode_examples(tokenizer, examples, max_length=64)
        longest = max(len(item) - item.prompt_length for item in sequences)
        answers = generate_greedy(
            half_known,
            tokenizer,
            [item.prompt for item in sequences],
            max_new_tokens=longest,
            batch_size=1,
            device="cpu",
        )
        pairs = zip(examples, answers, strict=True)
        return float(np.mean([scorer.score(example.answer, said)["rougeL"].recall for example, said in pairs]))

    evaluator = _evaluator(tiny_data, tokenizer)
    found = evaluator.measure(half_known).metrics
    assert found["verbmem"] == pytest.approx(mean_recall(tiny_data.forget), rel=1e-12)
    assert found["utility"] == pytest.approx(mean_recall(tiny_data.retain), rel=1e-12)
    assert 0.2 < found["verbmem"] < 1.0 > found["utility"]
    assert evaluator.verbmem(half_known) == found["verbmem"]


def test_truth_ratios_compare_the_paraphrase_with_the_wrong_answers(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, exact_nll: Any
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

    found = _evaluator(tiny_data, tokenizer).measure(half_known).metrics
    assert set(found) == set(DEFAULT_SET) - {"knowmem", *SETS["accuracy"]}
    on_retain, on_forget = ratios(tiny_data.retain_eval), ratios(tiny_data.forget_eval)
    assert found["truth_ratio"] == pytest.approx(sum(max(0.0, 1 - r) for r in on_retain) / 8, rel=1e-4)
    assert found["forget_truth_ratio"] == pytest.approx(sum(min(r, 1 / r) for r in on_forget) / 8, rel=1e-4)


def test_the_truth_ratio_is_left_out_where_there_are_no_wrong_answers(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    plain = tuple(replace(example, perturbed_answers=()) for example in tiny_data.retain)
    data = replace(tiny_data, retain_eval=plain)
    found = _evaluator(data, tokenizer).measure(known_network).metrics
    assert set(found) == set(DEFAULT_SET) - {"knowmem", "truth_ratio", *SETS["accuracy"]}


def test_a_network_that_knows_the_data_scores_so(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    evaluator = _evaluator(tiny_data, tokenizer)
    scores = {**evaluator.losses(known_network), **evaluator.measure(known_network).metrics}
    assert max(scores["forget_loss"], scores["retain_loss"]) < 0.05
    assert (scores["verbmem"], scores["utility"]) == (1.0, 1.0)
    assert scores["truth_ratio"] > 0.5 > scores["forget_truth_ratio"]


def test_the_batch_size_of_the_evaluation_does_not_matter(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    one, many = (_evaluator(tiny_data, tokenizer, batch_size) for batch_size in (1, 64))
    assert one.losses(half_known) == pytest.approx(many.losses(half_known), rel=1e-5)
    assert one.measure(half_known).metrics == pytest.approx(many.measure(half_known).metrics, rel=1e-4)
