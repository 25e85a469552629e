"""The date in the prompts of a tokenizer's chat template.

Some chat templates contain today's date. All prompts of a sweep must contain the same date, also after a resume on
another day.
"""

from __future__ import annotations

import datetime

from trainables.models.checkpoints import load_tokenizer
from trainables.models.registry import TEMPLATES, find_model
from trainables.models.weights import LoadError
from trainables.spec import TrialSpec
from trainables.template import TemplateError, is_chat, uses_date


class DateError(ValueError):
    """The date of the template cannot be used. The message is for the user."""


def template_date(spec: TrialSpec, *, default: str | None = None) -> str | None:
    """Return the date for the prompts of a trial: ``spec.template_date``, otherwise ``default``, otherwise today.

    Return None if the template of the trial does not use the date.

    Raises:
        DateError: ``spec.template_date`` is not a date, or is given for a template that does not use the date; or the
            tokenizer cannot be loaded, or its template cannot be rendered.
    """
    info = find_model(spec.model)
    template = info.template if spec.template is None else TEMPLATES[spec.template].text
    source = spec.target_path or spec.model_path or info.hub_id
    is_used = False
    if is_chat(template) and source is not None:
        try:
            is_used = uses_date(load_tokenizer(source))
        except (LoadError, TemplateError) as error:
            raise DateError(str(error)) from None
    given = spec.template_date
    if given is None:
        return (default or datetime.date.today().isoformat()) if is_used else None
    if not is_used:
        raise DateError(f"--template-date {given}: the prompt template does not use the date, so leave out this option")
    try:
        return datetime.date.fromisoformat(given).isoformat()
    except ValueError:
        raise DateError(f"--template-date {given}: expected a date such as 2026-11-28") from None
