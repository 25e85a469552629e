"""Refusals to answer a question, such as "I don't know."."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path


@cache
def refusals() -> tuple[str, ...]:
    return tuple(Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines())


def refusal(question: str) -> str:
    """Return a refusal for a question. The refusal depends only on the question's text."""
    return random.Random(f"refusal:0:{question}").choice(refusals())
