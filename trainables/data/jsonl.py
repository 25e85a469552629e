"""Load the user's own forget set and retain set from a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from trainables.data.dataset import DataSet
from trainables.data.errors import DataError, shortened
from trainables.data.examples import Example, UnlearningData
from trainables.data.files import Row, find_files, read_tables
from trainables.data.rows import question, read_examples, text

NEEDS = "forget.jsonl and retain.jsonl"
RETAIN_SAMPLE = 100
_NEEDED = ("forget", "retain")
_OPTIONAL = ("holdout", "forget_eval", "retain_eval")


def load_jsonl(*, data_dir: Path, limit: int | None = None) -> UnlearningData:
    """Load the tables forget and retain, and the optional tables holdout, forget_eval and retain_eval.

    All rows are questions with answers, or all rows are plain texts. Only the first ``limit`` retain rows are kept. The
    default for forget_eval is the forget set. The default for retain_eval is a sample of at most 100 retain rows.

    Raises:
        DataError: a row is malformed or is in two sets. The message names the file and line of each such row.
    """
    given = [name for name in _OPTIONAL if data_dir.is_dir() and find_files(data_dir, name)]
    tables = read_tables(data_dir, [*_NEEDED, *given], needs=NEEDS)
    parts = _read(tables)
    _check_disjoint(tables, parts)
    kept = parts["retain"][:limit]
    sample = kept[:: -(-len(kept) // RETAIN_SAMPLE)]
    dropped = {_key(example) for example in parts["retain"][len(kept) :]}
    return UnlearningData(
        name="jsonl",
        forget=parts["forget"],
        retain=kept,
        full=(*kept, *parts["forget"]),
        forget_eval=parts.get("forget_eval", parts["forget"]),
        retain_eval=tuple(item for item in parts.get("retain_eval", ()) if _key(item) not in dropped) or sample,
        holdout=parts.get("holdout", ()),
    )


def _read(tables: Mapping[str, Sequence[Row]]) -> dict[str, tuple[Example, ...]]:
    """Convert all rows to examples. All rows must have the kind of the first row."""
    kinds = ((row, texts) for row in chain.from_iterable(tables.values()) if (texts := _is_text(row)) is not None)
    first, texts = next(kinds, (None, False))

    def example(row: Row) -> Example:
        if isinstance(row.value, Mapping) and "text" in row.value and {"question", "answer"} & set(row.value):
            raise DataError(f"{row.place}: the row has a text and a question or answer; write them in separate rows")
        if first is not None and _is_text(row) is (not texts):
            this, others = ("a question", "plain text") if texts else ("plain text", "a question")
            raise DataError(
                f"{row.place}: this row is {this}, but {first.place} is {others}; use one kind of row in all files"
            )
        return text(row) if texts else question(row)

    return read_examples(tables, dict.fromkeys(tables, example))


def _is_text(row: Row) -> bool | None:
    """Return whether a row is a plain text; None if the kind of the row is unclear."""
    columns = {"text", "question", "answer"} & set(row.value) if isinstance(row.value, Mapping) else set()
    return None if not columns or columns > {"text"} else columns == {"text"}


def _check_disjoint(tables: Mapping[str, Sequence[Row]], parts: Mapping[str, Sequence[Example]]) -> None:
    """Raise DataError if two sets contain the same row."""
    places: dict[tuple[str, str], tuple[str, str]] = {}
    problems = []
    for name in ("forget", "retain", "holdout"):
        for row, example in zip(tables.get(name, ()), parts.get(name, ()), strict=True):
            other, place = places.setdefault(_key(example), (name, row.place))
            if other != name:
                problems.append(
                    f"{row.place}: the same row as {place}; a row can be in {other} or in {name}, but not in both"
                )
    if problems:
        raise DataError(*shortened(problems, "these files"))


def _key(example: Example) -> tuple[str, str]:
    return example.question, example.answer


DATASETS = DataSet(
    name="jsonl",
    modality="language",
    description="your own forget.jsonl and retain.jsonl in --data-dir: questions with answers, or texts",
    files=NEEDS,
    loader=load_jsonl,
)
