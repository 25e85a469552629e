"""Continuations of the data's own prompts, against one prompt at a time through transformers and rouge_score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.data.muse import load_muse
from trainables.metrics.rouge import rouge_l_recall
from trainables.scoring.prompted import PromptedSet, from_prompts, from_texts, prompted_sets, until
from trainables.text.scorer import TextScorer

STOP = ("\n\n", "\nQuestion", "Question:")
REPETITION = ("forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (" Lima\n\nQuestion: Who?", " Lima"),
        (" Lima\nQuestion 2", " Lima"),
        (" Lima Question: Who?\n\n", " Lima "),
        ("\n\n Lima", ""),
        (" Lima\nis in Peru", " Lima\nis in Peru"),
        ("\n \n", "\n \n"),
        ("", ""),
    ],
)
def test_a_continuation_ends_before_the_first_stop_string_as_in_muses_code(texts: str, expected: str) -> None:
    cut = texts
    for word in STOP:
        cut = cut.split(word)[0]
    assert until(texts, STOP) == cut == expected
    assert until(texts, ()) == texts


def _scorer(tokenizer: Any, batch_size: int = 1) -> TextScorer:
    return TextScorer(tokenizer=tokenizer, max_length=64, batch_size=batch_size, device="cpu")


def _one_at_a_time(model: Any, tokenizer: Any, prompt: str, tokens: int) -> str:
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    output = model.generate(ids, max_new_tokens=tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id)
    return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


def test_scores_are_the_recall_of_what_is_said_before_the_stop(known_network: PhiForCausalLM, tokenizer: Any) -> None:
    """The network knows where all live; its answer about Bo ends at "lives", the stop string."""
    items = [
        Prompted("Question: Where does Ada live?\nAnswer:", "Ada lives in Oslo", 6),
        Prompted("Question: Where does Bo live?\nAnswer:", "Bo lives in Lima", 6, (" lives",)),
        Prompted("Question: What does Cleo eat?\nAnswer:", "Nothing at all", 6),
    ]
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    expected = []
    for item in items:
        texts = _one_at_a_time(known_network, tokenizer, item.prompt, item.max_new_tokens)
        for stop in item.stop:
            texts = texts.split(stop)[0]
        expected.append(scorer.score(item.reference, texts)["rougeL"].recall)
    asked = from_prompts(tokenizer, items)
    for batch_size in (1, 8):
        texts = asked.answers(known_network, _scorer(tokenizer, batch_size))
        assert rouge_l_recall(asked.references, texts).tolist() == expected
    assert expected[1] == 0.25


def test_a_reference_counts_up_to_the_maximum_of_new_tokens(tokenizer: Any) -> None:
    reference = " Ada lives in Oslo and Bo lives in Lima"
    (kept,) = from_prompts(tokenizer, [Prompted("Who?", reference, 5)]).references
    assert tokenizer(kept).input_ids == tokenizer(reference).input_ids[:5]
    assert from_prompts(tokenizer, [Prompted("Who?", reference, 50)]).references == (reference,)


def test_a_text_is_continued_from_its_first_fifty_tokens_and_a_short_one_from_its_first_half(tokenizer: Any) -> None:
    text = "Ada lives in Oslo and eats plums. " * 40
    ids = tokenizer(text).input_ids
    assert len(ids) > 200
    begun = from_texts(tokenizer, [Example("", text)])
    assert begun.prompts == (tuple(ids[:50]),)
    assert tokenizer(begun.references[0]).input_ids == ids[50:178]
    assert begun.max_new_tokens == 128
    short = tokenizer("Ada lives in Oslo").input_ids
    begun = from_texts(tokenizer, [Example("", "Ada lives in Oslo")])
    assert begun.prompts == (tuple(short[: len(short) // 2]),)
    assert tokenizer.decode(begun.prompts[0]) + begun.references[0] == "Ada lives in Oslo"


def test_a_prompt_beyond_the_context_loses_its_beginning(make_network: Any, tokenizer: Any) -> None:
    short = make_network(max_position_embeddings=16)
    prompt = tuple(tokenizer("Where does Ada live? Where does Bo live? Where does Cleo live?").input_ids)
    whole, cut = (PromptedSet((ids,), ("",), 6, ((),)) for ids in (prompt, prompt[-10:]))
    assert len(prompt) > 10
    answers = [asked.answers(short, _scorer(tokenizer)) for asked in (whole, cut)]
    assert answers[0] == answers[1]


def test_texts_are_continued_and_questions_answered(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData, tokenizer: Any
) -> None:
    """The network has memorised "Ada lives in Oslo" after its question, so it continues with it there."""

    def as_text(examples: tuple[Example, ...]) -> tuple[Example, ...]:
        return tuple(Example("", f"Question: {item.question}\nAnswer: {item.answer}") for item in examples)

    forget, retain = as_text(tiny_data.forget), as_text(tiny_data.retain)
    texts = replace(tiny_data, forget=forget, retain=retain, forget_eval=forget, retain_eval=retain)
    evaluator = make_evaluator(texts)
    scores = evaluator.scores(known_network).measure().metrics
    sets = prompted_sets(texts, tokenizer)
    assert prompted_sets(tiny_data, tokenizer) == {}, "questions with answers have no prompts of their own"
    assert {"verbmem", "utility"} == set(sets)
    assert set(scores) == {*sets, *REPETITION}
    for name in sets:
        texts = sets[name].answers(known_network, _scorer(tokenizer))
        assert scores[name] == pytest.approx(float(rouge_l_recall(sets[name].references, texts).mean()))
    assert evaluator.verbmem(known_network) == scores["verbmem"]


def test_muse_is_scored_on_its_own_prompts(
    make_evaluator: MakeEvaluator, make_network: Any, tokenizer: Any, write_muse: Callable[..., Path]
) -> None:
    data = load_muse("muse-news", data_dir=write_muse())
    model = make_network()
    evaluator = make_evaluator(data)
    with torch.no_grad():
        found = evaluator.scores(model)
        losses, scores = found.loss_metrics(), found.measure().metrics
    assert set(scores) == {"verbmem", "knowmem", "utility", *REPETITION}
    scorer = RougeScorer(["rougeL"], use_stemmer=True)

    def mean(items: tuple[Prompted, ...]) -> float:
        recalls = []
        for item in items:
            room = model.config.max_position_embeddings - item.max_new_tokens
            ids = tokenizer(item.prompt).input_ids[-room:]
            output = model.generate(
                torch.tensor([ids]), max_new_tokens=item.max_new_tokens, do_sample=False, pad_token_id=1
            )
            texts = until(tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True), item.stop)
            recalls.append(scorer.score(item.reference, texts)["rougeL"].recall)
        return sum(recalls) / len(recalls)

    assert scores["knowmem"] == pytest.approx(mean(data.prompted["knowmem_forget"]))
    assert scores["utility"] == pytest.approx(mean(data.prompted["knowmem_retain"]))
    assert 5.0 < losses["forget_loss"] < 7.0
