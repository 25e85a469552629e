"""How a language model is asked: what stands before the answer and what ends it.

A template is plain text with the places ``{question}`` and ``{answer}``, a Jinja text with ``{{ question }}`` and
``{{ answer }}``, or :data:`CHAT`. Whatever it is, the answer and its end token are supervised and nothing else, and a
prompt ends where the answer begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTION_ANSWER = "Question: {question}\nAnswer: {answer}"
"""The template of base models."""
CHAT = "chat"
"""The template that the tokenizer has: the question is the user's turn, the answer the assistant's."""
ELSEWHERE = "take a model that has one, or give a template of your own as --template FILE.jinja"
_PLACE = "\ue000"
"""Stands for the answer while a template is rendered; of no alphabet."""


class TemplateError(ValueError):
    """A template cannot be used with a tokenizer, or at all; the message is a plain sentence for the user."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A template by name; ``text`` is what it is, see above."""

    name: str
    text: str
    description: str


def is_plain(template: str) -> bool:
    """Whether it only has places to fill, so that what follows the answer is part of it."""
    return template != CHAT and "{{" not in template


def around(template: str, question: str, tokenizer: PreTrainedTokenizerBase | None) -> tuple[str, str]:
    """What stands before the answer to a question, and what after it; plain templates need no tokenizer.

    Raises:
        TemplateError: the template cannot be rendered, or says the answer more than once.
    """
    if is_plain(template):
        before, _, after = template.partition("{answer}")
        return before.replace("{question}", question), after
    if template == CHAT:
        text = _chat(tokenizer, question)
    else:
        names = {name: getattr(tokenizer, name, None) or "" for name in ("bos_token", "eos_token")}
        text = _rendered(template, question=question, answer=_PLACE, **names)
    parts = text.split(_PLACE)
    if len(parts) != 2:
        raise TemplateError(f"the template says the answer {len(parts) - 1} times, expected once")
    return parts[0], parts[1]


def end_id(template: str, question: str, tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that ends an answer: the special token that follows it in the template, else the tokenizer's own.

    Raises:
        TemplateError: what follows the answer begins with no special token.
    """
    eos = int(tokenizer.eos_token_id)
    if is_plain(template):
        return eos
    after = around(template, question, tokenizer)[1].strip()
    ids = tokenizer(after, add_special_tokens=False)["input_ids"] if after else []
    special = {*tokenizer.all_special_ids, *getattr(tokenizer, "added_tokens_decoder", {})}
    if ids and ids[0] not in special:
        raise TemplateError(
            f"the template goes on after the answer with '{after[:40]}', which is no special token of the tokenizer: "
            "let the answer end the template (the end token is put behind it), or such a token"
        )
    return int(ids[0]) if ids else eos


def template_problems(template: str) -> list[str]:
    """What is wrong with a template of one's own, in plain sentences."""
    if is_plain(template):
        lacking = [place for place in ("{question}", "{answer}") if place not in template]
        if lacking:
            return [
                f"there is no {' and no '.join(lacking)} in it; expected a text with the places {{question}} and "
                "{answer}, or Jinja with {{ question }} and {{ answer }}"
            ]
        before, after = template.split("{answer}", 1)
        if "{answer}" in after:
            return ["it says the answer more than once"]
        return [] if "{question}" in before else ["the question must come before the answer"]
    try:
        before, _ = around(template, "\ue001", None)
    except TemplateError as error:
        return [str(error)]
    return [] if "\ue001" in before else ["the question must come before the answer"]


def _chat(tokenizer: Any, question: str) -> str:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": _PLACE}]
    if not getattr(tokenizer, "chat_template", None):
        raise TemplateError(f"template chat: the model's tokenizer has no chat template; {ELSEWHERE}")
    try:
        return str(tokenizer.apply_chat_template(turns, tokenize=False))
    except Exception as error:  # what the template raises itself, too
        raise TemplateError(f"template chat: the tokenizer's chat template fails: {error}") from None


def _rendered(template: str, **names: str) -> str:
    import jinja2

    try:
        return str(_compiled(template).render(**names))
    except jinja2.TemplateError as error:
        line = f"line {lineno}: " if (lineno := getattr(error, "lineno", None)) else ""
        raise TemplateError(f"{line}{error.message}") from None


@lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # As transformers reads chat templates.
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined).from_string(
        template
    )
