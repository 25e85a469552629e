"""Whatever the template, the answer and its end token are supervised and nothing else; prompts end before the answer.

The chat templates are those of well-known instruct models, shortened to what a single question needs.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import processors

from trainables.data.examples import Example
from trainables.models.tiny import make_tiny, train_metaspace_tokenizer, train_tokenizer
from trainables.template import (
    CHAT,
    QUESTION_ANSWER,
    TemplateError,
    chat_on,
    end_id,
    template_problems,
    text_around_answer,
    uses_date,
)
from trainables.text.scorer import TextScorer
from trainables.text.tokens import encode

EXAMPLES = [Example("Where is Lima?", "Lima is in Peru"), Example("Is Oslo in Peru?", "No, in Norway")] * 5
SPECIAL = ["<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>"]
ROUND = "{% for message in messages %}"
BOS = "{{ bos_token | default('') }}"
CHAT_TEMPLATES = {
    "ChatML, a line break behind the end": (
        ROUND + "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "<|im_end|>",
        "<|im_start|>user\nWhere is Lima?<|im_end|>\n<|im_start|>assistant\n",
    ),
    "Llama 2, spaces around the answer": (
        ROUND + "{% if message['role'] == 'user' %}" + BOS + "{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}",
        None,
        "[INST] Where is Lima? [/INST]",
    ),
    "Gemma, trimmed, ended by a turn's end": (
        "{{ bos_token | default('') }}"
        + ROUND
        + "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else 'user' }}\n"
        "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}",
        "<end_of_turn>",
        "<start_of_turn>user\nWhere is Lima?<end_of_turn>\n<start_of_turn>model\n",
    ),
    "Qwen 3, which puts a thought before the answer": (
        ROUND + "<|im_start|>{{ message['role'] }}\n{% if message['role'] == 'assistant' %}<think>\n\n</think>\n\n"
        "{% endif %}{{ message['content'] }}<|im_end|>\n{% endfor %}",
        "<|im_end|>",
        "<|im_start|>user\nWhere is Lima?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
}
OWN_TEMPLATES = (
    "### Instruction:\n{{ question }}\n\n### Response:\n{{ answer }}",
    "{{ bos_token }}Q: {{ question }}\nA: {{ answer }}{{ eos_token }}",
    "<|im_start|>{{ question }}<|im_end|>\n{{ answer }}\n<|im_end|>\n",
)


def byte_level(*, adds_eos: bool = False) -> Any:
    tokenizer = train_tokenizer(EXAMPLES)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    if adds_eos:
        end = (tokenizer.eos_token, tokenizer.eos_token_id)
        tokenizer._tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    return tokenizer


def llama_like() -> Any:
    tokenizer = train_metaspace_tokenizer(EXAMPLES)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    return tokenizer


@pytest.fixture(scope="module", params=["byte level", "adds EOS", "like Llama's"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return llama_like() if request.param == "like Llama's" else byte_level(adds_eos=request.param == "adds EOS")


def check_template(template: str, tokenizer: Any) -> None:
    """Check that the answer and one end token are supervised, and that the prompt does not depend on the answer."""
    for question in ("Where is Lima?", "What is {answer} in {{ braces }}?", "Zwölf?"):
        prompts = set()
        for answer in ("Lima is in Peru", "12", "In {question}, of course."):
            tokens = encode(tokenizer, question, answer, max_length=4096, template=template)
            *supervised, last = tokens.ids[tokens.prompt_length :]
            assert tokenizer.decode(supervised, skip_special_tokens=False).strip() == answer
            assert last == end_id(template, question, tokenizer)
            assert question in text_around_answer(template, question, tokenizer)[0]
            prompts.add(tokens.prompt)
        assert len(prompts) == 1


@pytest.mark.parametrize("name", CHAT_TEMPLATES)
def test_a_chat_template_supervises_the_answer_and_its_prompt_ends_before_the_answer(tokenizer: Any, name: str) -> None:
    tokenizer.chat_template, end, expected = CHAT_TEMPLATES[name]
    check_template(CHAT, tokenizer)
    ids = encode(tokenizer, "Where is Lima?", "Lima", max_length=200, template=CHAT).ids
    assert ids[-1] == (tokenizer.eos_token_id if end is None else tokenizer.convert_tokens_to_ids(end))
    assert ids.count(tokenizer.eos_token_id) <= 1
    if tokenizer.bos_token_id is not None:
        assert ids.count(tokenizer.bos_token_id) <= 1
    asked = text_around_answer(CHAT, "Where is Lima?", tokenizer)[0].rstrip(" ")
    assert asked.removeprefix(tokenizer.bos_token or "") == expected


@pytest.mark.parametrize("template", [QUESTION_ANSWER, *OWN_TEMPLATES])
def test_a_users_own_template_supervises_the_answer(tokenizer: Any, template: str) -> None:
    assert template_problems(template) == []
    check_template(template, tokenizer)


def test_greedy_answers_stop_before_the_templates_end_even_if_it_is_not_special(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = byte_level()
    tokenizer.chat_template, end, _ = CHAT_TEMPLATES["Gemma, trimmed, ended by a turn's end"]
    scorer = TextScorer(tokenizer=tokenizer, template=CHAT, max_length=200, batch_size=1, device="cpu")
    assert scorer.ends == (tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(end))
    model = make_tiny("tiny-phi", tokenizer)
    prompt = encode(tokenizer, "Where is Lima?", "Lima", max_length=200).prompt
    whole = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)[0, len(prompt) :].tolist()
    stop = next(token for token in whole[2:] if token not in whole[:2])
    monkeypatch.setattr("trainables.text.scorer.end_id", lambda *_: stop)
    (text,) = scorer.generate(model, [prompt], limits=[8])
    assert stop not in tokenizer.all_special_ids
    assert text == tokenizer.decode(whole[: whole.index(stop)])


def test_a_bos_token_that_is_also_eos_does_not_end_a_text() -> None:
    """As with OPT."""
    tokenizer = byte_level()
    end = tokenizer.bos_token, _ = (tokenizer.eos_token, tokenizer.eos_token_id)
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(single=f"{end[0]} $A", special_tokens=[end])
    scorer = TextScorer(tokenizer=tokenizer, max_length=200, batch_size=1, device="cpu")
    (tokens,) = scorer.encode([Example("", "Lima is in Peru")])
    assert tokens.ids[0] == tokenizer.eos_token_id
    assert scorer.decode([tokens.ids]) == ["Lima is in Peru"]


@pytest.mark.parametrize(
    ("template", "chat", "fact"),
    [
        ("{{ question }} {{ answer }} and so on", None, "'and so on'"),
        ("{{ question }} {{ answer }} {{ answer }}", None, "2 times"),
        (CHAT, None, "no chat template"),
        (CHAT, "{{ raise_exception('only one turn') }}", "only one turn"),
    ],
)
def test_a_template_that_does_not_fit_the_tokenizer_is_refused(template: str, chat: str | None, fact: str) -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = chat
    with pytest.raises(TemplateError, match=fact):
        encode(tokenizer, "Where is Lima?", "Lima", max_length=200, template=template)


DATED = (
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "Today Date: {{ date_string }}\n" + CHAT_TEMPLATES["ChatML, a line break behind the end"][0]
)
"""Like Llama 3.2's."""


def test_a_chat_template_sees_the_date_of_the_template() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT_TEMPLATES["ChatML, a line break behind the end"][0]
    assert not uses_date(tokenizer)
    undated = text_around_answer(CHAT, "Where is Lima?", tokenizer)
    assert text_around_answer(chat_on("2026-11-28"), "Where is Lima?", tokenizer) == undated
    tokenizer.chat_template = DATED
    assert uses_date(tokenizer)
    before, after = text_around_answer(chat_on("2026-11-28"), "Where is Lima?", tokenizer)
    assert (before, after) == (f"Today Date: 28 Nov 2026\n{undated[0]}", undated[1])
    check_template(chat_on("2026-11-28"), tokenizer)
