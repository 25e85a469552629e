"""TOFU (Maini et al. 2024, arXiv:2401.06121): fictitious authors, from the hub or from a folder of the same files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData, keep_retain

HUB_ID = "locuslab/TOFU"
RETAIN_OF = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}
QUESTIONS_PER_AUTHOR = 20


def tofu_files(forget_split: str) -> dict[str, str]:
    """Which file of the data set plays which part for a forget split."""
    return {
        "forget": forget_split,
        "retain": RETAIN_OF[forget_split],
        "forget_eval": f"{forget_split}_perturbed",
        "retain_eval": "retain_perturbed",
        "real_authors": "real_authors_perturbed",
        "world_facts": "world_facts_perturbed",
        "holdout": forget_split.replace("forget", "holdout"),
    }


def load_tofu(
    *, forget_split: str = "forget10", data_dir: Path | None = None, limit: int | None = None
) -> UnlearningData:
    """TOFU with its forget split and the matching retain split.

    The target's training set is retain + forget (``full``). ``limit`` keeps that many retain examples, rounded down
    to whole authors of 20 questions, and the evaluation sample of the retain set shrinks with it.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or ``limit`` is below one author.
    """
    parts = {
        part: read_rows(data_dir / f"{name}.json") if data_dir is not None else _hub_rows(name)
        for part, name in tofu_files(forget_split).items()
    }
    data = UnlearningData(
        name=f"tofu/{forget_split}",
        forget=parts["forget"],
        retain=parts["retain"],
        full=(*parts["retain"], *parts["forget"]),
        forget_eval=parts["forget_eval"],
        retain_eval=parts["retain_eval"],
        extra_eval={"real_authors": parts["real_authors"], "world_facts": parts["world_facts"]},
        holdout=parts["holdout"],
    )
    return keep_retain(data, limit, per_author=QUESTIONS_PER_AUTHOR)


def read_rows(path: Path) -> tuple[Example, ...]:
    """The examples of a JSON-lines file in TOFU's columns.

    Raises:
        DataError: the file is missing, empty, or a line is not an object with the expected columns.
    """
    try:
        # Not splitlines(): JSON may hold U+2028 and its like inside a text.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}; --data-dir needs TOFU's files under their own names") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not a JSON object ({error.msg})") from None
    return to_examples(rows, where=str(path))


def to_examples(rows: Iterable[Mapping[str, object]], *, where: str) -> tuple[Example, ...]:
    """Rows with question and answer (and optionally paraphrased_answer, perturbed_answer) as examples.

    Raises:
        DataError: a column is missing or of the wrong type; the message names ``where`` and the row.
    """
    examples = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise DataError(f"{where}, row {number}: expected an object with question and answer, got {row!r:.60}")
        for column in ("question", "answer"):
            if not isinstance(row.get(column), str) or not row[column]:
                raise DataError(
                    f"{where}, row {number}: column '{column}' must be a non-empty text, got {row.get(column)!r:.60}"
                )
        perturbed = row.get("perturbed_answer") or []
        if not isinstance(perturbed, list) or not all(isinstance(item, str) for item in perturbed):
            raise DataError(f"{where}, row {number}: column 'perturbed_answer' must be a list of texts")
        examples.append(
            Example(
                question=str(row["question"]),
                answer=str(row["answer"]),
                # Real authors and world facts have no paraphrase: TOFU scores the answer itself there.
                paraphrased_answer=str(row.get("paraphrased_answer") or (row["answer"] if perturbed else "")),
                perturbed_answers=tuple(perturbed),
            )
        )
    if not examples:
        raise DataError(f"{where}: no rows; expected one JSON object per line")
    return tuple(examples)


def _hub_rows(name: str) -> tuple[Example, ...]:
    from datasets import load_dataset

    try:
        rows = load_dataset(HUB_ID, name, split="train")
    except Exception as error:
        raise DataError(
            f"cannot load {HUB_ID} ({name}) from the hub: {str(error).splitlines()[0][:200]}; "
            "give its files with --data-dir DIR, or use --dataset authors"
        ) from error
    return to_examples(rows, where=f"{HUB_ID}/{name}")
