"""The evaluator's losses in float64, the questions that metrics are measured on, and the memory it frees."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data import load_data
from trainables.data.examples import Example, UnlearningData
from trainables.data.muse import load_muse
from trainables.metrics.key_facts import told_pieces
from trainables.metrics.registry import METRICS
from trainables.text.tokens import encode_examples


def test_the_agreement_is_the_share_of_each_answer_before_the_first_wrong_token(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """The expected share comes from greedy answers, generated token by token."""
    found = make_evaluator().scores(half_known).retain_agreement
    shares = []
    for item in encode_examples(tokenizer, tiny_data.retain, max_length=64):
        said, answer = list(item.prompt), item.ids[item.prompt_length :]
        for token in answer:
            logits = half_known(torch.tensor([said])).logits[0, -1]
            if int(logits.argmax()) != token:
                break
            said.append(token)
        shares.append((len(said) - item.prompt_length) / len(answer))
    assert found == pytest.approx(float(np.mean(shares)), rel=1e-12)
    assert 0.0 < found < 1.0


def test_forgetting_is_judged_on_forget_eval_and_the_losses_are_of_the_forget_set(
    make_evaluator: MakeEvaluator,
    half_known: PhiForCausalLM,
    make_network: Any,
    tokenizer: Any,
    tiny_data: UnlearningData,
    exact_nll: Any,
) -> None:
    """The forget_eval set has five of the eight questions, in reverse order."""

    def losses_of(part: Sequence[Example]) -> list[float]:
        return [float(exact_nll(half_known, item).mean()) for item in encode_examples(tokenizer, part, max_length=64)]

    judged = tiny_data.forget[6:1:-1]
    holdout = (Example("Where did Finn go?", "Finn went away"),)
    evaluator = make_evaluator(replace(tiny_data, forget_eval=judged, holdout=holdout))
    losses = evaluator.scores(half_known).loss_metrics()
    assert losses["forget_loss"] == make_evaluator().scores(half_known).loss_metrics()["forget_loss"]
    retain = evaluator.reference(make_network(seed=3), key="other", path="")
    names = ("verbmem", "forget_probability", "forget_truth_ratio", "exact_memorization", "mia_loss", "mia_reference")
    found = evaluator.scores(half_known, retain=retain).measure(names)
    log = found.items["eval_log_forget.json"]
    paraphrased = [Example(item.question, item.paraphrased_answer) for item in judged]
    for column, part in (("avg_gt_loss", judged), ("avg_paraphrased_loss", paraphrased)):
        assert list(log[column].values()) == pytest.approx(losses_of(part), rel=1e-4)
    asked = [(row[0], row[2]) for row in log["generated_text"].values()]
    assert asked == [(f"Question: {item.question}\nAnswer:", item.answer) for item in judged]
    assert {len(column) for column in log.values()} == {5} == {len(found.items["membership"]["mia_loss"]["forget"])}
    # Whether a target knows the forget set is measured on the forget set.
    assert evaluator.verbmem(half_known) == make_evaluator().verbmem(half_known) != found.metrics["verbmem"]


def test_the_answers_of_the_retain_model_are_kept_with_the_words_that_tell_facts(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData
) -> None:
    evaluator = make_evaluator()
    kept: Any = evaluator.reference(known_network, key="own", path="").answers["eval_log_forget.json"]
    assert [row[2] for row in kept["generated_text"].values()] == [item.answer for item in tiny_data.forget]
    facts = evaluator.facts["forget"]
    told = [told_pieces(own, item.answer) for own, item in zip(facts, tiny_data.forget, strict=True)]
    assert list(kept["true_facts"].values()) == told
    assert any(told)
    assert kept["told_facts"] == kept["true_facts"], "the model tells the true answers"


def test_running_text_is_attacked_text_by_text_also_relative_to_the_retain_model(
    make_evaluator: MakeEvaluator, make_network: Any, write_muse: Callable[..., Path]
) -> None:
    """The forget set is one text, and membership is inferred for the two texts of privleak."""
    evaluator, model = make_evaluator(load_muse("muse-news", data_dir=write_muse())), make_network(seed=4)
    retain = evaluator.reference(model, key="own", path="")
    found = evaluator.scores(model, retain=retain).measure(("mia_reference",))
    attack: Any = found.items["membership"]["mia_reference"]
    assert list(attack["forget"].values()) == [0.0, 0.0], "the model is its own reference"


@pytest.mark.parametrize("name", ["forget_answer_loss", "forget_fact_recall", "retain_fact_recall"])
def test_running_text_has_no_answers_to_questions(name: str, write_muse: Callable[..., Path]) -> None:
    texts, questions = load_muse("muse-news", data_dir=write_muse()), load_data("authors")
    assert not all(need.is_met(texts, True) for need in METRICS[name].needs)
    assert all(need.is_met(questions, True) for need in METRICS[name].needs)


def test_a_scored_model_is_freed_without_the_garbage_collector(
    make_evaluator: MakeEvaluator, make_network: Any
) -> None:
    """The next model needs its memory."""
    evaluator, model = make_evaluator(), make_network(seed=4)
    gone = weakref.ref(model)
    gc.disable()
    try:
        retain = evaluator.reference(model, key="own", path="")
        evaluator.scores(model, retain=retain).measure(("tofu",))
        del model
        assert gone() is None
    finally:
        gc.enable()


def test_answers_that_are_too_long_are_cut_like_their_references(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData
) -> None:
    sequences = make_evaluator().questions["forget"].sequences
    length = max(item.prompt_length for item in sequences) + 2
    scores = make_evaluator(max_length=length).scores(known_network)
    references = scores.evaluator.questions["forget"].references
    assert any(item.is_cut for item in scores.evaluator.questions["forget"].sequences)
    assert all(example.answer.startswith(text) for example, text in zip(tiny_data.forget, references, strict=True))
    assert scores.recalls("forget", prompts="verbmem").tolist() == [1.0] * 8
    assert scores.greedy_answers("forget", prompts="verbmem") == references
