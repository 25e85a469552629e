"""Read refusals such as "I don't know" from refusals.txt. idk-DPO trains the model to prefer refusals to answers."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path


@cache
def refusals() -> tuple[str, ...]:
    """Read all refusals from refusals.txt."""
    return tuple(Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines())


def refusal(question: str, *, seed: int = 0) -> str:
    """Return a refusal for a question. The choice depends only on the question's text and the seed."""
    return random.Random(f"refusal:{seed}:{question}").choice(refusals())
