"""Continuations of the data's own prompts, against one prompt at a time through transformers and rouge_score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rouge_score.rouge_scorer import RougeScorer
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.data.muse import load_muse
from trainables.metrics.rouge import rouge_l_recall
from trainables.scoring.prompted import PromptedSet, cut_at_stop, from_prompts, from_texts, prompted_sets
from trainables.text.scorer import TextScorer

STOP = ("\n\n", "\nQuestion", "Question:")
REPETITION = ("forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop")


@pytest.mark.parametrize("text", [" Lima\nQuestion 2", " Lima Question: Who?\n\n", "\n\n Lima", " Lima\nis in Peru"])
def test_a_continuation_ends_before_the_first_stop_string_as_in_muses_code(text: str) -> None:
    cut = text
    for word in STOP:
        cut = cut.split(word)[0]
    assert cut_at_stop(text, STOP) == cut


def _scorer(tokenizer: Any, batch_size: int = 1) -> TextScorer:
    return TextScorer(tokenizer=tokenizer, max_length=64, batch_size=batch_size, device="cpu")


def _one_at_a_time(model: Any, tokenizer: Any, prompt: str, tokens: int) -> str:
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    output = model.generate(ids, max_new_tokens=tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id)
    return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


def test_scores_are_the_recall_of_what_is_said_before_the_stop(known_network: PhiForCausalLM, tokenizer: Any) -> None:
    """The network knows where everyone lives. Its answer about Bo ends before the stop string "lives"."""
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


def test_metrics_are_measured_on_the_datas_own_prompts_and_texts_are_continued(
    make_evaluator: MakeEvaluator,
    known_network: PhiForCausalLM,
    tiny_data: UnlearningData,
    tokenizer: Any,
    write_muse: Callable[..., Path],
) -> None:
    texts = tuple(Example("", f"Question: {item.question}\nAnswer: {item.answer}") for item in tiny_data.forget)
    plain = UnlearningData("texts", texts[:4], texts[4:], texts, texts[:4], texts[4:])
    muse = load_muse("muse-news", data_dir=write_muse())
    own = {"knowmem": "knowmem_forget", "utility": "knowmem_retain", "verbmem": "verbmem"}
    assert prompted_sets(muse, tokenizer) == {
        name: from_prompts(tokenizer, muse.prompted[key]) for name, key in own.items()
    }
    assert prompted_sets(tiny_data, tokenizer) == {}, "questions with answers have no prompts of their own"
    for data, names in ((plain, {"verbmem", "utility"}), (muse, {*own})):
        scores = make_evaluator(data).scores(known_network).measure().metrics
        assert set(scores) == {*names, *REPETITION}
        for name, asked in prompted_sets(data, tokenizer).items():
            answers = asked.answers(known_network, _scorer(tokenizer))
            assert scores[name] == pytest.approx(float(rouge_l_recall(asked.references, answers).mean()))
