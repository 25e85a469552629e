"""Refusals such as "I don't know", one per line in refusals.txt. idk-DPO prefers them to the answers to forget."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path


@cache
def refusals() -> tuple[str, ...]:
    """Read all refusals from refusals.txt."""
    return tuple(Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines())


def refusal(question: str, *, seed: int = 0) -> str:
    """Return a refusal for a question. It depends only on the question's text and the seed."""
    return random.Random(f"refusal:{seed}:{question}").choice(refusals())
