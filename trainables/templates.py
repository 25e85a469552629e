"""The prompt templates by name; a user's own are plug-ins."""

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
            description="for base models, and what every registered model is asked with unless told otherwise",
        ),
        Template(name=CHAT, text=CHAT, description="the tokenizer's own chat template, for instruct models"),
    ),
)
