"""Load the user's own forget set and retain set from a folder."""

from __future__ import annotations

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
    retained = sets["retain"][:limit]
    sample = retained[:: -(-len(retained) // RETAIN_SAMPLE)]
    dropped_keys = {_key(example) for example in sets["retain"][len(retained) :]}
    return UnlearningData(
        name="jsonl",
        forget=sets["forget"],
        retain=retained,
        full=(*retained, *sets["forget"]),
        forget_eval=sets.get("forget_eval", sets["forget"]),
        retain_eval=tuple(item for item in sets.get("retain_eval", ()) if _key(item) not in dropped_keys) or sample,
        holdout=sets.get("holdout", ()),
    )


def _example(row: Row) -> Example:
    columns = {"text", "question", "answer"} & set(row.value) if isinstance(row.value, Mapping) else set()
    if not columns or columns > {"text"}:
        raise DataError(
            f"{row.location}: expected either the columns question and answer or the column text, got {row.value!r:.60}"
        )
    return text(row) if columns == {"text"} else question(row)


def _contradictions(tables: Mapping[str, Sequence[Row]], sets: Mapping[str, Sequence[Example]]) -> list[str]:
    """Return a message for each row that is in two sets, and for each row of the wrong kind.

    The first row of the table forget determines the kind of all rows: questions or plain texts.
    """
    occurrences: dict[tuple[str, str], tuple[str, str]] = {}
    first_location, first_is_text = tables["forget"][0].location, sets["forget"][0].is_text
    problems = []
    for name, examples in sets.items():
        for row, example in zip(tables[name], examples, strict=True):
            if example.is_text is not first_is_text:
                kind, first_kind = ("a question", "plain text") if first_is_text else ("plain text", "a question")
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


def _key(example: Example) -> tuple[str, str]:
    return example.question, example.answer


DATASETS = DataSet(
    name="jsonl",
    modality="language",
    description="your own forget.jsonl and retain.jsonl in --data-dir, with questions and answers, or with texts",
    files=NEEDS,
    loader=load_jsonl,
)
