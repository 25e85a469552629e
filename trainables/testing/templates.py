"""Check your own prompt template in a test: ``check_template(MINE, tokenizer)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.template import Template, end_id
from trainables.text.tokens import encode, prompt_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTIONS = ("Where is Lima?", "What is {answer} in {{ braces }}?", "Zwölf?")
ANSWERS = ("Lima is in Peru", "12", "In {question}, of course.")


def check_template(template: Template, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
    """Check that the answer and one end token are supervised, and that the prompt does not depend on the answer.

    Args:
        tokenizer: a tokenizer; by default a small new one.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    if tokenizer is None:
        from trainables.data.examples import Example
        from trainables.models.tiny import train_tokenizer

        tokenizer = train_tokenizer(Example(question, answer) for question in QUESTIONS for answer in ANSWERS)
    assert template.description, "the description is empty"
    for question in QUESTIONS:
        prompts = set()
        for answer in ANSWERS:
            tokens = encode(tokenizer, question, answer, max_length=4096, template=template.text)
            *supervised, last = tokens.ids[tokens.prompt_length :]
            found = tokenizer.decode(supervised, skip_special_tokens=False).strip()
            assert found == answer, f"'{found}' is supervised instead of the answer '{answer}'"
            end = end_id(template.text, question, tokenizer)
            assert last == end, f"the last token is {last}, but the token that ends answers is {end}"
            asked = prompt_text(question, template=template.text, tokenizer=tokenizer)
            assert question in asked, f"the prompt does not contain the question: '{asked}'"
            prompts.add(tokens.prompt)
        assert len(prompts) == 1, "the prompt depends on the answer"
