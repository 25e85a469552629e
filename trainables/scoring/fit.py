"""Check that the texts of a task fit a language model: its embedding has all their tokens, and positions suffice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainables.data.examples import Example, UnlearningData
from trainables.models.shapes import embedding_rows, position_limit
from trainables.models.weights import listed
from trainables.scoring.prompted import prompted_sets
from trainables.template import QUESTION_ANSWER
from trainables.text.tokens import encode_examples

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def fit_problems(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: UnlearningData,
    *,
    max_length: int,
    template: str = QUESTION_ANSWER,
) -> list[str]:
    """Return a message if texts have tokens outside the model's embedding, and if texts are too long for the model.

    The model may be a skeleton on torch's meta device.

    Raises:
        DataError, TemplateError: a text cannot be encoded.
    """
    rows, limit = embedding_rows(model), position_limit(model)
    prompted = prompted_sets(data, tokenizer)
    continuation = max((item.max_new_tokens for item in prompted.values()), default=0)
    problems = []
    if limit is not None and continuation >= limit:
        problems.append(
            f"prompts of {data.name} are continued by {continuation} tokens, but the model has only {limit} positions; "
            "use a model with more positions"
        )
    has_all_rows = max(tokenizer.get_vocab().values()) < rows
    if has_all_rows and (limit is None or max_length <= limit):
        return problems  # without encoding the texts
    sequences = encode_examples(tokenizer, _texts(data), max_length=max_length, template=template)
    longest = max(map(len, sequences), default=0)
    if limit is not None and longest > limit:
        remedy = "use a model with more positions"
        if all(item.prompt_length < limit for item in sequences):
            remedy = f"use --max-length {limit}, which cuts longer texts, or a model with more positions"
        problems.append(
            f"--max-length {max_length}: the longest text has {longest} tokens, but the model has only {limit} "
            f"positions; {remedy}"
        )
    used = {token for item in sequences for token in item.ids}
    used.update(token for item in prompted.values() for prompt in item.prompts for token in prompt)
    outside = sorted(token for token in used if token >= rows)
    if outside:
        names = [f"'{tokenizer.convert_ids_to_tokens(token)}' (id {token})" for token in outside]
        problems.append(
            f"the model's embedding has {rows} rows (ids 0 to {rows - 1}), but the tokenizer has {len(tokenizer)} "
            f"tokens, and the texts use tokens without a row: {listed(names)}; enlarge the embedding with "
            f"resize_token_embeddings({len(tokenizer)}) and train it, or use the tokenizer that belongs to the model"
        )
    return problems


def _texts(data: UnlearningData) -> tuple[Example, ...]:
    sets = (data.full, data.forget, data.retain, data.forget_eval, data.retain_eval, data.holdout)
    return tuple(
        dict.fromkeys(_with_choices(example for items in (*sets, *data.extra_eval.values()) for example in items))
    )


def _with_choices(examples: Iterable[Example]) -> Iterator[Example]:
    for item in examples:
        for answer in (item.answer, item.paraphrased_answer, *item.perturbed_answers):
            if answer:
                yield Example(item.question, answer)
