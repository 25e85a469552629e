"""Load the user's own forget set and retain set from a folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from search_spaces.common.messages import counted
from trainables.data.dataset import DataSet
from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData
from trainables.data.files import Row, find_files, read_tables, similar_files
from trainables.data.rows import question, read_rows, rephrased, text

NEEDS = "forget.jsonl and retain.jsonl"
RETAIN_SAMPLE = 100
_NEEDED = ("forget", "retain")
_COLUMNS = {"question": {"question", "answer"}, "text": {"text"}}
"""The columns of each kind of row."""
_FURTHER_SETS = ("forget_rephrased", "retain_rephrased", "neighbours")
_OPTIONAL = ("holdout", "forget_eval", "retain_eval", *_FURTHER_SETS)
_SIDES = {"forget_eval": ("forget", "retain"), "retain_eval": ("retain", "forget"), "neighbours": ("retain", "forget")}
"""The side that each set evaluates, and the other side, whose rows it must not have."""


def load_jsonl(*, data_dir: Path, limit: int | None = None) -> UnlearningData:
    """Load the tables forget and retain, and the optional tables.

    Either all rows must be questions with answers, or all rows must be plain texts. Only the first ``limit`` rows of
    the table retain are kept. Without the table forget_eval, the forget set is evaluated. Without the table
    retain_eval, at most 100 evenly spaced examples of the retain set are evaluated. The tables forget_rephrased and
    retain_rephrased have questions in other words. Without them, the column paraphrased_question of the evaluated rows
    is used. The table neighbours has questions about subjects near the forget set.

    Raises:
        DataError: a row is malformed, a row of holdout is also in forget or retain, a row of a set for evaluation is
            only on the other side, or ``limit`` drops all rows of retain_eval. The message names the files and lines.
    """
    optional_tables = [name for name in _OPTIONAL if find_files(data_dir, name) or similar_files(data_dir, name)]
    tables = read_tables(data_dir, [*_NEEDED, *optional_tables], expected=NEEDS)
    problems = _mixed_kinds(tables)
    try:
        sets = read_rows(tables, dict.fromkeys(tables, _example))
    except DataError as error:
        raise DataError(*problems, *error.problems) from None
    problems += _holdout_problems(tables, sets)
    problems += [problem for name in _SIDES if name in sets for problem in _wrong_side_problems(name, tables, sets)]
    if problems:
        raise DataError(*problems)
    retain = sets["retain"][:limit]
    sample = retain[:: math.ceil(len(retain) / RETAIN_SAMPLE)]
    dropped_keys = set(map(_key, sets["retain"])) - set(map(_key, retain))
    retain_eval = tuple(example for example in sets.get("retain_eval", ()) if _key(example) not in dropped_keys)
    if "retain_eval" in sets and not retain_eval:
        first = 1 + min(map([*map(_key, sets["retain"])].index, map(_key, sets["retain_eval"])))
        raise DataError(
            f"--limit {limit} drops all {counted(len(sets['retain_eval']), 'row')} of retain_eval, because retain has "
            f"none of them in its first {counted(len(retain), 'row')}; the limit must be at least {first}"
        )
    data = UnlearningData(
        name="jsonl",
        forget=sets["forget"],
        retain=retain,
        full=(*retain, *sets["forget"]),
        forget_eval=sets.get("forget_eval", sets["forget"]),
        retain_eval=retain_eval or sample,
        holdout=sets.get("holdout", ()),
    )
    dropped_answers = {example.answer for example in sets["retain"]} - {example.answer for example in data.full}
    further_sets = {
        "forget_rephrased": rephrased(tables.get("forget_eval", tables["forget"]), data.forget_eval),
        "retain_rephrased": rephrased(tables["retain_eval" if retain_eval else "retain"], data.retain_eval),
    }
    for name in _FURTHER_SETS:
        if name in sets:
            further_sets[name] = tuple(item for item in sets[name] if item.answer not in dropped_answers)
    return data.with_sets(**further_sets)


def _example(row: Row) -> Example:
    kind = _kind(row)
    if kind is None and not row.problem:
        raise DataError(
            f"{row.location}: expected either the columns question and answer or the column text, got {row.value!r:.60}"
        )
    return text(row) if kind == "text" else question(row)


def _kind(row: Row) -> str | None:
    """Return the kind of a row, ``question`` or ``text``; None if the columns are those of neither or of both."""
    columns = set(row.value) if isinstance(row.value, Mapping) else set()
    kinds = [kind for kind, names in _COLUMNS.items() if names & columns]
    return kinds[0] if len(kinds) == 1 else None


def _mixed_kinds(tables: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return a message if some rows are questions and others are texts."""
    rows_by_kind: dict[str | None, list[Row]] = {}
    for row in chain.from_iterable(tables.values()):
        rows_by_kind.setdefault(_kind(row), []).append(row)
    parts = []
    for kind in _COLUMNS:
        if rows := rows_by_kind.get(kind):
            places = " and ".join(row.location for row in rows[:2])
            parts.append(f"{counted(len(rows), kind)} (for example {places})")
    if len(parts) < 2:
        return []
    return [f"the files have {' and '.join(parts)}; use either questions or texts in all files"]


def _holdout_problems(tables: Mapping[str, Sequence[Row]], sets: Mapping[str, Sequence[Example]]) -> list[str]:
    """Return a message if rows of the table holdout are also in the tables forget or retain."""
    locations = {
        _key(example): row.location for name in _NEEDED for row, example in zip(tables[name], sets[name], strict=True)
    }
    pairs = [
        f"{row.location} is the same as {locations[_key(example)]}"
        for row, example in zip(tables.get("holdout", ()), sets.get("holdout", ()), strict=True)
        if _key(example) in locations
    ]
    if not pairs:
        return []
    rows = counted(len(pairs), "row")
    return [
        f"{rows} of holdout {'is' if len(pairs) == 1 else 'are'} also in forget or retain, but no model may be trained "
        f"on the holdout set: {'; '.join(pairs[:2])}"
    ]


def _wrong_side_problems(
    name: str, tables: Mapping[str, Sequence[Row]], sets: Mapping[str, Sequence[Example]]
) -> list[str]:
    """Return a message if rows of the set ``name`` are on the other side, and not on the side that it evaluates."""
    side, other = _SIDES[name]
    own_keys = set(map(_key, sets[side]))
    locations = {_key(example): row.location for row, example in zip(tables[other], sets[other], strict=True)}
    pairs = [
        f"{row.location} is the same as {locations[_key(example)]}"
        for row, example in zip(tables[name], sets[name], strict=True)
        if _key(example) in locations and _key(example) not in own_keys
    ]
    if not pairs:
        return []
    rows, task = counted(len(pairs), "row"), "forget" if other == "forget" else "keep"
    return [
        f"{rows} of {name} {'is' if len(pairs) == 1 else 'are'} in {other} instead of {side}, so scores of {name} "
        f"would count what the model should {task}: {'; '.join(pairs[:2])}"
    ]


def _key(example: Example) -> tuple[str, str]:
    return example.question, example.answer


DATASETS = DataSet(
    name="jsonl",
    modality="language",
    description="your own forget.jsonl and retain.jsonl in --data-dir, with questions and answers, or with texts",
    files=NEEDS,
    loader=load_jsonl,
)
