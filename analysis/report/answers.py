"""The answers of the models that can be compared on the report page, beside the target's and the true answers.

A model can be read if its answers are stored in the folder ``items/`` of its sweep: the last epochs of trials, and the
epochs on the frontier whose metrics were measured. The page has at most :data:`MAX_MODELS` of these models: the
recommended model, its runners-up, the frontier, then other models. The number of questions and the length of an answer
are bounded, too.

``<script type="application/json" id="answers">`` is a list with an entry per unlearning task (null without answers):

- ``id``: identifies the sweep, so that a browser keeps the votes of each sweep.
- ``models``: a list with ``trial``, ``epoch``, ``name``, ``role`` (``recommended``, ``closest``, ``runner-up``,
  ``frontier`` or ""), and two lists with an entry per question: ``answers``, and ``distance`` (:func:`distance`, in
  percent) from the compared answer, which is the target's or, without a target, the true answer.
- ``target``, ``never_saw``: a list with an answer per question; null if no answers are stored.
- ``facts``: whether the log of the items says where key facts are.
- ``sets``: a list with ``name``, ``label``, ``group`` (a filter of the page), and ``total``, the number of questions.
- ``questions``: the lists ``set`` (index), ``number`` (as in the folder items/), ``text`` and ``truth``.

An answer is null (not stored), 0 (equal to the compared answer), a text, or a list of parts (text, mark, text, mark).
A mark is 1 (differs from the compared answer), 2 (tells a key fact), 3 (both) or 0.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, groupby
from typing import Any, TypeVar

import pandas as pd

from analysis.frontier.choice import Choice
from analysis.frontier.frontier import Frontier
from analysis.frontier.pareto_json import json_number
from analysis.tables.item_logs import OWN_QUESTIONS, Answers, StoredAnswer, model_answers, reference_answers
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import model_name
from search_spaces.common.messages import printable
from search_spaces.common.words import pieces

MAX_MODELS = 24
MAX_QUESTIONS = 100
"""The maximum number of questions of a set. The questions of a larger set are evenly spread over the set."""
MAX_QUESTIONS_IN_ALL = 300
"""The maximum number of questions of all sets together, in equal parts."""
MAX_CHARACTERS = 400
"""The maximum length of a text. A longer text is cut after a word, and ends with an ellipsis."""
DIFFERS, FACT = 1, 2

T = TypeVar("T")
Text = str | list[str | int]
"""A text, or its parts, each followed by its mark."""

_GROUPS = {"forget": "forget", "retain": "retain", "forget_rephrased": "rephrased", "retain_rephrased": "rephrased"}
_LABELS = {
    "forget": "to forget",
    "retain": "to retain",
    "forget_rephrased": "to forget, in other words",
    "retain_rephrased": "to retain, in other words",
    "neighbours": "near the forget set",
    "real_authors": "real authors",
    "world_facts": "world facts",
}


@dataclass(frozen=True, slots=True)
class _Model:
    row: pd.Series
    role: str
    answers: Answers


def answers_data(table: TrialTable, sweep: SweepFile, choice: Choice, front: Frontier) -> dict[str, Any] | None:
    """Return the entry of one unlearning task, as described at the top of this module; None without stored answers."""
    models = list(_readable(table, choice, front))
    if not models:
        return None
    target = reference_answers(models[0].row, "target")
    never_saw = reference_answers(models[0].row, "never-saw")
    keys = _spread(dict.fromkeys(key for model in models for key in model.answers))
    first = {key: next(model.answers[key] for model in models if key in model.answers) for key in keys}
    compared = {key: target[key].text if key in target else item.truth for key, item in first.items()}
    names = list(dict.fromkeys(name for name, _ in keys))
    all_keys = {*target, *(key for model in models for key in model.answers)}
    return {
        "id": f"{sweep.name} {sweep.created or ''}".strip(),
        "models": [
            {
                "trial": str(model.row["trial_id"]),
                "epoch": None if (epoch := finite_cell(model.row, "epoch")) is None else json_number(epoch),
                "name": model_name(model.row, with_epoch=table.every_epoch),
                "role": model.role,
                "answers": [_compared(compared[key], model.answers.get(key)) for key in keys],
                "distance": [_percent(compared[key], model.answers.get(key)) for key in keys],
            }
            for model in models
        ],
        "target": [_told(target.get(key)) for key in keys] if target else None,
        "facts": any(item.true_facts for item in first.values()),
        "never_saw": [_compared(compared[key], never_saw.get(key)) for key in keys] if never_saw else None,
        "sets": [
            {
                "name": printable(name),
                "label": printable(_LABELS.get(name, name.removeprefix(OWN_QUESTIONS))),
                "group": _GROUPS.get(name, "own" if name.startswith(OWN_QUESTIONS) else "neighbours"),
                "total": sum(key[0] == name for key in all_keys),
            }
            for name in names
        ],
        "questions": {
            "set": [names.index(name) for name, _ in keys],
            "number": [number for _, number in keys],
            "text": _questions([item.prompt for item in first.values()]),
            "truth": [_marked(item.truth, frozenset(), item.true_facts) for item in first.values()],
        },
    }


def _readable(table: TrialTable, choice: Choice, front: Frontier) -> Iterator[_Model]:
    """Yield the models with stored answers and with the same target as the first one, most interesting first."""
    chosen = [] if choice.row is None else [("recommended" if choice.recommended else "closest", choice.row)]
    runners_up = [("runner-up", choice.rows.iloc[index]) for index in choice.runners_up]
    members = (("frontier", row) for _, row in front.members.iterrows())
    rows = table.models.trials
    # Rows of external tables have no checkpoints, and reading many rows one by one is slow.
    others = (("", row) for _, row in rows[rows["checkpoint"].fillna("") != ""].iterrows())
    seen: set[tuple[str, str]] = set()
    target_key: object = None
    for role, row in chain(chosen, runners_up, members, others):
        key = (str(row.get("folder")), str(row["checkpoint"]))
        is_other = not row["checkpoint"] or key in seen or target_key not in (None, row.get("target_key"))
        if not is_other and (answers := model_answers(row)):
            seen.add(key)
            target_key = row.get("target_key")
            yield _Model(row, role, answers)
            if len(seen) == MAX_MODELS:
                return


def _spread(keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the keys on the page: the sets to forget and to retain come first, and each set is evenly spread."""
    by_set: dict[str, list[tuple[str, str]]] = {"forget": [], "retain": []}
    for key in keys:
        by_set.setdefault(key[0], []).append(key)
    by_set = {name: own for name, own in by_set.items() if own}
    limit = min(MAX_QUESTIONS, MAX_QUESTIONS_IN_ALL // max(1, len(by_set)))
    return [key for own in by_set.values() for key in evenly_spread(own, limit)]


def evenly_spread(items: Sequence[T], limit: int) -> list[T]:
    """Return at most ``limit`` of the items, evenly spread."""
    count = min(len(items), limit)
    return [items[index * len(items) // count] for index in range(count)]


def distance(before: str, after: str) -> float:
    """Return how much two answers differ, in [0, 1]: ``1 - 2 m / (a + b)``.

    ``a`` and ``b`` are their numbers of words, and ``m`` is the number of words that both have in the same order, as
    found by :class:`difflib.SequenceMatcher`. Case and punctuation marks count.
    """
    words, others = _words(before), _words(after)
    same = sum(end - start for tag, start, end, _, _ in _opcodes(before, after) if tag == "equal")
    return 1 - 2 * same / (len(words) + len(others)) if words or others else 0.0


def _percent(compared: str, answer: StoredAnswer | None) -> int | None:
    """Return the distance in percent. It is 0 only for equal answers."""
    if answer is None:
        return None
    return 0 if _words(compared) == _words(answer.text) else max(1, round(100 * distance(compared, answer.text)))


def _compared(compared: str, answer: StoredAnswer | None) -> Text | int | None:
    if answer is None:
        return None
    if _words(compared) == _words(answer.text):
        return 0
    opcodes = _opcodes(compared, answer.text)
    changed = frozenset(index for tag, _, _, start, end in opcodes if tag != "equal" for index in range(start, end))
    return _marked(answer.text, changed, answer.told_facts)


def _told(answer: StoredAnswer | None) -> Text | None:
    return None if answer is None else _marked(answer.text, frozenset(), answer.told_facts)


def _marked(text: str, changed: frozenset[int], facts: Sequence[Sequence[int]]) -> Text:
    """Return a text with the marks of its pieces."""
    parts = [part[:MAX_CHARACTERS] for part in pieces(text)]
    in_fact = {index for start, end in facts for index in range(start, end)}
    marks = [DIFFERS * (index in changed) + FACT * (index in in_fact) for index in range(len(parts))]
    lengths = accumulate(map(len, parts))
    count = sum(length <= MAX_CHARACTERS for length in lengths)
    cut = "" if count == len(parts) else "…"
    marked: list[str | int] = []
    for mark, group in groupby(range(count), key=marks.__getitem__):
        marked += [printable("".join(parts[index] for index in group)), mark]
    if not marked or marked[1:] == [0]:
        return f"{marked[0] if marked else ''}{cut}"
    marked[-2] = f"{marked[-2]}{cut}"
    return marked


def _questions(prompts: Sequence[str]) -> list[str]:
    """Return the questions without the template of their prompts."""
    head, tail = _template(prompts)
    questions = [prompt.removeprefix(head).removesuffix(tail).strip() for prompt in prompts]
    return [printable(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…") for text in questions]


def _template(prompts: Sequence[str]) -> tuple[str, str]:
    """Return the text that precedes the question in all prompts, and the text that follows it in all prompts."""
    if len(set(prompts)) < 2:
        return "", ""
    common_prefix = os.path.commonprefix
    suffix = common_prefix([prompt[::-1] for prompt in prompts])[::-1]
    # All questions may start with the same words, so the template ends with a mark, as in "Question: " or "[INST] ".
    head = re.match(r".*[\n:>\]]\s*", common_prefix(prompts), re.DOTALL)
    tail = re.search(r"[\n<\[].*", suffix, re.DOTALL)
    return head[0] if head else "", tail[0] if tail else ""


@lru_cache(maxsize=1 << 14)
def _opcodes(before: str, after: str) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, _words(before), _words(after), autojunk=False).get_opcodes()


def _words(answer: str) -> tuple[str, ...]:
    """Return the words of an answer with their punctuation marks. Case counts."""
    return tuple(piece.strip() for piece in pieces(answer))
