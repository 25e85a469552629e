"""Prompt templates. A template defines the text before an answer and the text after the answer.

A template is plain text with the placeholders ``{question}`` and ``{answer}``, a Jinja text with ``{{ question }}`` and
``{{ answer }}``, or :data:`CHAT` for the tokenizer's chat template. The answer and the end token are supervised. In a
plain template, the text after the answer is supervised too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTION_ANSWER = "Question: {question}\nAnswer: {answer}"
"""The default template of a model."""
CHAT = "chat"
"""The tokenizer's own chat template. In ``chat@2026-11-28``, today's date in the chat template is 2026-11-28."""
WITHOUT_CHAT = "use a model with a chat template, or give your own template with --template FILE.jinja"
_ANSWER_MARK = "\ue000"
"""A private-use character that marks the position of the answer while a template is rendered."""


class TemplateError(ValueError):
    """Raised if a template is invalid or does not work with a tokenizer; the message is for the user."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    name: str
    text: str
    description: str


def is_plain(template: str) -> bool:
    """Return whether the template is plain text with placeholders."""
    return not is_chat(template) and "{{" not in template


def is_chat(template: str) -> bool:
    """Return whether the template is the tokenizer's chat template, perhaps with a date."""
    return template.partition("@")[0] == CHAT and "{" not in template


def chat_on(date: str) -> str:
    """Return the tokenizer's chat template with a fixed date, such as ``2026-11-28``."""
    return f"{CHAT}@{date}"


def uses_date(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether prompts with the tokenizer's chat template depend on today's date.

    Raises:
        TemplateError: the tokenizer has no chat template, or the chat template cannot be rendered.
    """
    first, second = (_chat(tokenizer, "?", date) for date in ("2001-02-03", "2034-11-12"))
    return first != second


def text_around_answer(template: str, question: str, tokenizer: PreTrainedTokenizerBase | None) -> tuple[str, str]:
    """Return the text before the answer and the text after the answer, with the question filled in.

    ``tokenizer`` may be None if the template does not use the tokenizer's chat template.

    Raises:
        TemplateError: the template cannot be rendered, or does not contain the answer exactly once.
    """
    if is_plain(template):
        before, *after = template.split("{answer}")
        parts = [before.replace("{question}", question), *after]
    elif is_chat(template):
        parts = _chat(tokenizer, question, template.partition("@")[2]).split(_ANSWER_MARK)
    else:
        special_tokens = {name: getattr(tokenizer, name, None) or "" for name in ("bos_token", "eos_token")}
        parts = _render(template, question=question, answer=_ANSWER_MARK, **special_tokens).split(_ANSWER_MARK)
    if len(parts) != 2:
        raise TemplateError(
            f"the template must contain the answer once, but contains it {len(parts) - 1} times; placeholders are "
            "{question} and {answer} or, in Jinja, {{ question }} and {{ answer }}"
        )
    return parts[0], parts[1]


def end_id(template: str, question: str, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id of the token that ends an answer.

    The token is the special token after the answer in the template. If no text follows the answer, the token is EOS.

    Raises:
        TemplateError: the text after the answer does not begin with a special token.
    """
    eos = int(tokenizer.eos_token_id)
    if is_plain(template):
        return eos
    after = text_around_answer(template, question, tokenizer)[1].strip()
    ids = tokenizer(after, add_special_tokens=False)["input_ids"] if after else []
    if not ids:
        return eos
    special_ids = {*tokenizer.all_special_ids, *getattr(tokenizer, "added_tokens_decoder", {})}
    if ids[0] not in special_ids:
        raise TemplateError(
            f"the template continues after the answer with '{after[:40]}', which is not a special token of the "
            "tokenizer; end the template with the answer (an end token is then appended) or with a special token"
        )
    return int(ids[0])


def template_problems(template: str) -> list[str]:
    """Return a message for each problem with a user's template."""
    try:
        before, _ = text_around_answer(template, "\ue001", None)
    except TemplateError as error:
        return [str(error)]
    return [] if "\ue001" in before else ["the template must contain the question before the answer"]


def _chat(tokenizer: Any, question: str, date: str) -> str:
    """Render the chat template. If ``date`` is empty, the template sees the current date."""
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": _ANSWER_MARK}]
    if not getattr(tokenizer, "chat_template", None):
        raise TemplateError(f"template chat: the model's tokenizer has no chat template; {WITHOUT_CHAT}")
    try:
        template = _date_macro(date) + tokenizer.get_chat_template() if date else None
        return str(tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False))
    except Exception as error:  # a template may raise its own errors
        raise TemplateError(f"template chat: the tokenizer's chat template raised an error: {error}") from None


def _date_macro(date: str) -> str:
    """Return a macro ``strftime_now`` with a fixed date, which replaces transformers' function of this name.

    transformers accepts no functions as arguments of a template.
    """
    moment = datetime.fromisoformat(date)
    directives = ["%-d", "%-m", *(f"%{letter}" for letter in "aAbBcdHIjmMpSUwWxXyYZ")]
    filters = "".join(f" | replace('{directive}', '{moment.strftime(directive)}')" for directive in directives)
    return "{% macro strftime_now(format) %}{{ format" + filters + " }}{% endmacro +%}"


def _render(template: str, **variables: str) -> str:
    import jinja2

    try:
        return str(_compile(template).render(**variables))
    except jinja2.TemplateError as error:
        lineno = getattr(error, "lineno", None)
        line = f"line {lineno}: " if lineno else ""
        raise TemplateError(f"{line}{error.message}") from None


@lru_cache(maxsize=8)
def _compile(template: str) -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # These are the settings that transformers uses for chat templates.
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined).from_string(
        template
    )
