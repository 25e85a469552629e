"""Convert rows to examples or images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from trainables.data.errors import DataError, shortened
from trainables.data.examples import Example
from trainables.data.files import Row

T = TypeVar("T")


def read_rows(
    tables: Mapping[str, Iterable[Row]], converters: Mapping[str, Callable[[Row], T]]
) -> dict[str, tuple[T, ...]]:
    """Convert the rows of each table.

    ``converters`` maps the name of each table to a function that converts a :class:`Row` to an example or image, such
    as :func:`question`. The function raises DataError if the row is malformed.

    Raises:
        DataError: rows are malformed, or a table has no rows. The message lists up to 20 problems per table.
    """
    converted: dict[str, tuple[T, ...]] = {}
    problems: list[str] = []
    for name, convert in converters.items():
        table_items: list[T] = []
        table_problems: list[str] = []
        for row in tables[name]:
            try:
                if row.problem:
                    raise DataError(row.problem)
                table_items.append(convert(row))
            except DataError as error:
                table_problems += error.problems
        if not table_items and not table_problems:
            table_problems.append(f"{name}: no rows; expected at least one")
        problems += shortened(table_problems, name)
        converted[name] = tuple(table_items)
    if problems:
        raise DataError(*problems)
    return converted


def question(row: Row) -> Example:
    """Convert a row with a question and an answer.

    The columns paraphrased_answer, perturbed_answer (a list) and paraphrased_question are optional. The last column is
    only checked; :func:`rephrased` reads it.
    """
    question_text, answer = _required_texts(row, "question", "answer")
    value: Any = row.value
    paraphrase = value.get("paraphrased_answer") or ""
    perturbed = value.get("perturbed_answer") or []
    for column in ("paraphrased_answer", "paraphrased_question"):
        if not isinstance(value.get(column) or "", str):
            raise DataError(f"{row.location}: column '{column}' must be a text, got {value[column]!r:.60}")
    if not isinstance(perturbed, list) or not all(isinstance(item, str) and item.strip() for item in perturbed):
        raise DataError(f"{row.location}: column 'perturbed_answer' must be a list of texts, got {perturbed!r:.60}")
    if perturbed and not paraphrase:
        paraphrase = answer  # TOFU's real authors and world facts have no paraphrase
    return Example(question_text, answer, paraphrased_answer=paraphrase, perturbed_answers=tuple(perturbed))


def rephrased(rows: Iterable[Row], examples: Iterable[Example]) -> tuple[Example, ...]:
    """Return the examples with their questions in other words, from the column paraphrased_question.

    ``rows`` are the rows from which the examples were read. Examples without this column are left out. Of several equal
    examples, the k-th one gets the other words of the k-th row with this column.
    """
    questions: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        value: Any = row.value
        if other_words := (value.get("paraphrased_question") or "").strip():
            questions.setdefault((value["question"], value["answer"]), []).append(other_words)
    return tuple(
        Example(remaining.pop(0), item.answer)
        for item in examples
        if (remaining := questions.get((item.question, item.answer)))
    )


def text(row: Row) -> Example:
    (content,) = _required_texts(row, "text")
    return Example(question="", answer=content)


def passage(row: Row) -> Example:
    """Convert a row with the beginning of a passage (column prompt) and its continuation (column gt)."""
    prompt, continuation = _required_texts(row, "prompt", "gt")
    return Example(question=prompt, answer=continuation)


def _required_texts(row: Row, *columns: str) -> list[str]:
    """Return the texts in the given columns of a row. Raise DataError if a text is missing, empty or malformed."""
    if not isinstance(row.value, Mapping):
        raise DataError(f"{row.location}: expected an object with {' and '.join(columns)}, got {row.value!r:.60}")
    for column in columns:
        value = row.value.get(column)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{row.location}: column '{column}' must be a non-empty text, got {value!r:.60}")
        has_surrogate = not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
        if has_surrogate:
            raise DataError(f"{row.location}: column '{column}' has half a surrogate pair, which is not a character")
    return [row.value[column] for column in columns]
