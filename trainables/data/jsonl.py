"""Load the user's own forget set and retain set from a folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainables.data.dataset import DataSet
from trainables.data.errors import DataError, shortened
from trainables.data.examples import Example, UnlearningData
from trainables.data.files import Row, find_files, read_tables
from trainables.data.rows import question, read_rows, text

NEEDS = "forget.jsonl and retain.jsonl"
RETAIN_SAMPLE = 100
_NEEDED = ("forget", "retain")
_OPTIONAL = ("holdout", "forget_eval", "retain_eval")


def load_jsonl(*, data_dir: Path, limit: int | None = None) -> UnlearningData:
    """Load the tables forget and retain, and the optional tables holdout, forget_eval and retain_eval.

    Either all rows must be questions with answers, or all rows must be plain texts. Only the first ``limit`` rows of
    the table retain are kept. Without the table forget_eval, the forget set is evaluated. Without the table
    retain_eval, at most 100 evenly spaced examples of the retain set are evaluated.

    Raises:
        DataError: a row is malformed or is in two sets. The message names the file and line of each such row.
    """
    optional_tables = [name for name in _OPTIONAL if data_dir.is_dir() and find_files(data_dir, name)]
    tables = read_tables(data_dir, [*_NEEDED, *optional_tables], expected=NEEDS)
    sets = read_rows(tables, dict.fromkeys(tables, _example))
    if problems := _contradictions(tables, sets):
        raise DataError(*shortened(problems, "these files"))
    retain = sets["retain"][:limit]
    sample = retain[:: math.ceil(len(retain) / RETAIN_SAMPLE)]
    dropped_keys = {_key(example) for example in sets["retain"][len(retain) :]}
    retain_eval = tuple(example for example in sets.get("retain_eval", ()) if _key(example) not in dropped_keys)
    return UnlearningData(
        name="jsonl",
        forget=sets["forget"],
        retain=retain,
        full=(*retain, *sets["forget"]),
        forget_eval=sets.get("forget_eval", sets["forget"]),
        retain_eval=retain_eval or sample,
        holdout=sets.get("holdout", ()),
    )


def _example(row: Row) -> Example:
    columns = set(row.value) if isinstance(row.value, Mapping) else set()
    has_text = "text" in columns
    has_question = "question" in columns or "answer" in columns
    if has_text == has_question:  # both or neither
        raise DataError(
            f"{row.location}: expected either the columns question and answer or the column text, got {row.value!r:.60}"
        )
    return text(row) if has_text else question(row)


def _contradictions(tables: Mapping[str, Sequence[Row]], sets: Mapping[str, Sequence[Example]]) -> list[str]:
    """Return a message for each row that is in two sets, and for each row of the wrong kind.

    The first row of the table forget determines the kind of all rows: questions or plain texts.
    """
    occurrences: dict[tuple[str, str], tuple[str, str]] = {}
    first_location = tables["forget"][0].location
    first_kind = _kind(sets["forget"][0])
    problems = []
    for name, examples in sets.items():
        for row, example in zip(tables[name], examples, strict=True):
            kind = _kind(example)
            if kind != first_kind:
                problems.append(
                    f"{row.location}: this row is {kind}, but {first_location} is {first_kind}; use one kind in all "
                    "files"
                )
            if name.endswith("_eval"):
                continue
            other, location = occurrences.setdefault(_key(example), (name, row.location))
            if other != name:
                problems.append(
                    f"{row.location}: this row is the same as {location}; a row can be in {other} or in {name}, but "
                    "not in both"
                )
    return problems


def _kind(example: Example) -> str:
    return "plain text" if example.is_text else "a question"


def _key(example: Example) -> tuple[str, str]:
    return example.question, example.answer


DATASETS = DataSet(
    name="jsonl",
    modality="language",
    description="your own forget.jsonl and retain.jsonl in --data-dir, with questions and answers, or with texts",
    files=NEEDS,
    loader=load_jsonl,
)
