"""Ask the target for other answers to the forget questions, which the objective altpo prefers."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainables.data.errors import DataError
from trainables.models.shapes import position_limit
from trainables.target.cache import FORMAT, Cache, digest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.target.target import Target
    from trainables.text.scorer import TextScorer

COUNT = 5
"""The number of alternate answers to each question, as in the paper."""
INSTRUCTION = "Now write another version of the answer with some alternate plausible facts that change answer details."
"""The authors' prompt for Llama 2 (github.com/molereddy/Alternate-Preference-Optimization)."""
STOPS = ("Question:", "Q:")


def alternate_answers(model: PreTrainedModel, target: Target, scorer: TextScorer, *, seed: int) -> list[str]:
    """Return five sampled answers to each forget question: the first answers to all questions, then the second, ...

    The prompt is the target's template with the question, its answer and ``INSTRUCTION``. The target samples at
    temperature 1, and an answer ends before ``STOPS``. Different seeds give different answers, which are stored in the
    cache of targets. The authors allow 200 tokens; here, an answer has at most as many tokens as the longest answer in
    the forget set.

    Raises:
        DataError: a prompt leaves the model no room for an answer.
    """

    def compute() -> dict[str, Any]:
        forget: Any = target.data.forget
        limit = max(len(item) - item.prompt_length for item in scorer.encode(forget))
        asked = [replace(item, question=f"{item.question}\nAnswer: {item.answer}\n{INSTRUCTION}") for item in forget]
        encoded = replace(scorer, max_length=sys.maxsize).encode(asked)  # a prompt may be longer than in training
        prompts = [item.ids[: item.prompt_length] for item in encoded]
        longest, positions = max(map(len, prompts)), position_limit(model)
        if positions is not None and longest >= positions:
            raise DataError(
                f"objective 'altpo': the prompt for another version of an answer has up to {longest} tokens, and the "
                f"model accepts {positions}, so no version can be written; shorten the forget set's texts, or use dpo"
            )
        samples = scorer.sampled_answers(model, prompts, n=COUNT, limits=[limit] * len(prompts), seed=seed)
        texts = [text for answers in zip(*samples, strict=True) for text in answers]
        return {"answers": [re.split("|".join(STOPS), text)[0].strip() for text in texts]}

    key = digest(FORMAT, target.key, seed, COUNT, scorer.batch_size, INSTRUCTION)
    answers: list[str] = Cache().note(f"alternates/{key}", compute)["answers"]
    return answers
