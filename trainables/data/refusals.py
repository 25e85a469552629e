"""Answers that say "I don't know", one a line in refusals.txt: what idk-DPO prefers to the answers to be forgotten."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path


@cache
def refusals() -> tuple[str, ...]:
    """All of them."""
    return tuple(Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines())


def refusal(question: str, *, seed: int = 0) -> str:
    """The refusal that belongs to a question: a pure function of the question's text and the seed."""
    return random.Random(f"refusal:{seed}:{question}").choice(refusals())
