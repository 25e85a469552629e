"""Notes about sets with answers that are cut because they are longer than the maximum length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from search_spaces.common.messages import counted
from trainables.data.examples import Example, UnlearningData
from trainables.template import is_plain
from trainables.text.tokens import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_LENGTH = 1 << 30
LoadTokenizer = Callable[[UnlearningData], "PreTrainedTokenizerBase | None"]
"""A function that returns the tokenizer for the data; None if the tokenizer is not on this machine."""


def cut_notes(data: UnlearningData, load: LoadTokenizer, *, length: int, template: str) -> Iterator[str]:
    """Yield a note for each set with answers that are cut after ``length`` tokens.

    The paraphrased and perturbed answers of a set, whose losses are compared, are a set of their own.
    """
    sets = {
        "forget": data.forget,
        "retain": data.retain,
        "forget_eval": data.forget_eval,
        "retain_eval": data.retain_eval,
        **data.extra_eval,
        "holdout": data.holdout,
    }
    sets |= {f"{name} (paraphrased or perturbed)": _choices(examples) for name, examples in sets.items()}
    candidates: dict[str, list[Example]] = {}
    listed: set[tuple[str, str]] = set()
    for name, examples in sets.items():
        pairs = {(item.question, item.answer) for item in examples}
        if not pairs <= listed:
            candidates[name] = [item for item in examples if _may_be_longer(item, length, template)]
        listed |= pairs
    if not any(candidates.values()):
        return  # so that no tokenizer is loaded
    tokenizer = load(data)
    if tokenizer is None:
        return
    encode_row = partial(encode, tokenizer, template=template)
    for name, rows in candidates.items():
        cut = [item for item in rows if encode_row(item.question, item.answer, max_length=length).is_cut]
        if cut:
            longest = max(len(encode_row(item.question, item.answer, max_length=_MAX_LENGTH)) for item in cut)
            answers = f"{len(cut)} of {counted(len(sets[name]), 'answer')} of {name}"
            yield (
                f"{answers} {'is' if len(cut) == 1 else 'are'} longer than --max-length {length} tokens: only the "
                f"beginning is trained and scored; the longest question and answer have {longest} tokens"
            )


def _choices(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Return the paraphrased and perturbed answers with their questions."""
    return tuple(
        Example(item.question, answer)
        for item in examples
        for answer in (item.paraphrased_answer, *item.perturbed_answers)
        if answer
    )


def _may_be_longer(item: Example, length: int, template: str) -> bool:
    """Return whether a row may have more than ``length`` tokens. A token has at least one byte of UTF-8."""
    if item.is_text:  # a text is cut into windows instead
        return False
    if not is_plain(template):
        return True
    return len(f"{template}{item.question}{item.answer}".encode()) >= length
