"""The registry of prompt templates. Users add their own templates as plug-ins."""

from __future__ import annotations

from collections.abc import Mapping

from trainables.registry import with_plugins
from trainables.template import CHAT, QUESTION_ANSWER, Template

TEMPLATES: Mapping[str, Template] = with_plugins(
    "TEMPLATES",
    (
        Template(
            name="question-answer",
            text=QUESTION_ANSWER,
            description="for base models; the default of every registered model",
        ),
        Template(name=CHAT, text=CHAT, description="the tokenizer's own chat template, for instruct models"),
    ),
)
