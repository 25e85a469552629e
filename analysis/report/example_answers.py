"""Compare the recommended model's answers with the target's and the true answers, as recorded in the folder items/."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.common.words import pieces

_EXAMPLES_PER_SET = 5
TARGET_ITEMS = "target-{key}.json"
"""The file in items/ with the answers of a target. ``{key}`` is the key of the target."""
_LOGS = {"forget": "eval_log_forget.json", "retain": "eval_log.json"}
"""The key of each evaluation set in a per-item log. The logs have the format of the TOFU authors' evaluation logs."""
_OWN_QUESTIONS = "questions/"
"""The beginning of the key of each question set of the user. The name of the set follows."""


MarkedWords = tuple[tuple[str, bool], ...]
"""An answer as pairs (consecutive words, whether these words differ from the answer that it is compared with).

The joined texts are the answer. In a script without spaces between words, each letter counts as a word.
"""


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """The answers to one question.

    Attributes:
        truth: the answer in the data.
        before: the target's answer; None if the target's answers were not recorded.
        after: the model's answer. It is compared with ``before`` or, if ``before`` is None, with ``truth``.
    """

    question: str
    truth: str
    before: MarkedWords | None
    after: MarkedWords


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """The answers to the questions of one evaluation set, before and after unlearning.

    Attributes:
        name: ``forget``, ``retain``, or the name of a question set of the user.
        examples: the answers to at most five questions, evenly spread over the set.
        unchanged: the number of questions with the same answer before and after unlearning.
        total: the number of all questions.
    """

    name: str
    examples: tuple[ComparedAnswers, ...]
    unchanged: int
    total: int


@dataclass(frozen=True, slots=True)
class ExampleAnswers:
    """The answers to questions of each set, before and after unlearning.

    ``is_target`` is whether the target's answers were recorded.
    """

    sets: tuple[ComparedSet, ...]
    is_target: bool


def example_answers(out: Path, checkpoint: str, target_key: str) -> ExampleAnswers | None:
    """Return the answers of a model beside the target's and the true answers; None if no answers were recorded.

    ``checkpoint`` is a path relative to ``out``.
    """
    path = out / checkpoint
    items = path.parent.parent / "items"
    model, target = _read(items / f"{path.name}.json"), _read(items / TARGET_ITEMS.format(key=target_key))
    own_sets = {key.removeprefix(_OWN_QUESTIONS): key for key in model if key.startswith(_OWN_QUESTIONS)}
    keys = (_LOGS | own_sets).items()
    sets = [_compared_set(name, model.get(key, {}), target.get(key, {})) for name, key in keys]
    found = tuple(item for item in sets if item.total)
    return ExampleAnswers(found, bool(target)) if found else None


def _read(path: Path) -> Mapping[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _compared_set(name: str, model: Mapping[str, Any], target: Mapping[str, Any]) -> ComparedSet:
    outputs: Mapping[str, list[str]] = model.get("generated_text", {})
    targets: Mapping[str, list[str]] = target.get("generated_text", {})
    head, tail = _template([prompt for prompt, _, _ in outputs.values()])
    answers = []
    for key, (prompt, after, truth) in outputs.items():
        question = prompt.removeprefix(head).removesuffix(tail).strip()
        answers.append((question, truth, targets[key][1] if key in targets else None, after))
    count = min(_EXAMPLES_PER_SET, len(answers))
    examples = [answers[index * len(answers) // count] for index in range(count)]
    return ComparedSet(
        name=name,
        examples=tuple(_compared(*example) for example in examples),
        unchanged=sum(
            _words(truth if before is None else before) == _words(after) for _, truth, before, after in answers
        ),
        total=len(answers),
    )


def _compared(question: str, truth: str, before: str | None, after: str) -> ComparedAnswers:
    marked_before, marked_after = _mark_differences(truth if before is None else before, after)
    return ComparedAnswers(question, truth, None if before is None else marked_before, marked_after)


def _template(prompts: list[str]) -> tuple[str, str]:
    """Return the text that precedes the question in all prompts, and the text that follows it in all prompts."""
    if len(set(prompts)) < 2:
        return "", ""
    common_prefix = os.path.commonprefix
    suffix = common_prefix([prompt[::-1] for prompt in prompts])[::-1]
    head = re.match(r".*\s", common_prefix(prompts), re.DOTALL)  # questions may start with the same letters
    tail = re.search(r"[\n<\[].*", suffix, re.DOTALL)
    return head[0] if head else "", tail[0] if tail else ""


def _mark_differences(before: str, after: str) -> tuple[MarkedWords, MarkedWords]:
    first, second = pieces(before), pieces(after)
    opcodes = difflib.SequenceMatcher(None, _words(before), _words(after), autojunk=False).get_opcodes()
    return (
        tuple(("".join(first[a:b]), tag != "equal") for tag, a, b, _, _ in opcodes if b > a),
        tuple(("".join(second[c:d]), tag != "equal") for tag, _, _, c, d in opcodes if d > c),
    )


def _words(answer: str) -> list[str]:
    """Return the words of an answer with their punctuation marks. Case counts."""
    return [piece.strip() for piece in pieces(answer)]
