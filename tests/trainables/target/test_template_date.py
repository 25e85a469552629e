"""The date in a chat template is fixed when a sweep starts, and belongs to the target only if the template uses it."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from tests.trainables.text.test_templates import CHAT_TEMPLATES, DATED, byte_level
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny
from trainables.spec import TrialSpec
from trainables.target.target import target_spec_of
from trainables.target.template_date import DateError, template_date


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model whose chat template uses the date."""
    tokenizer: Any = byte_level()
    tokenizer.chat_template = DATED
    folder = tmp_path_factory.mktemp("model") / "dated"
    save_model(make_tiny("tiny-gpt2", tokenizer), tokenizer, folder)
    return folder


def test_the_date_is_today_unless_the_run_has_one(folder: Path) -> None:
    spec = TrialSpec(model_path=str(folder), template="chat")
    assert template_date(spec) == datetime.date.today().isoformat()
    assert template_date(spec, default="2026-11-27") == "2026-11-27"
    assert template_date(replace(spec, template_date="2025-01-02"), default="2026-11-27") == "2025-01-02"
    assert template_date(replace(spec, template=None)) is None


def test_a_date_that_cannot_be_used_is_refused(folder: Path) -> None:
    spec = TrialSpec(model_path=str(folder), template="chat", template_date="28.11.2026")
    with pytest.raises(DateError) as caught:
        template_date(spec)
    assert_names(caught.value, "--template-date 28.11.2026", "2026-11-28")
    with pytest.raises(DateError, match=r"--template-date 2026-11-28: .* does not use the date"):
        template_date(TrialSpec(template_date="2026-11-28"))


def test_the_date_is_part_of_the_targets_key(folder: Path) -> None:
    spec = TrialSpec(model_path=str(folder), template="chat", template_date="2026-11-28")
    first, again, other = (
        target_spec_of(replace(spec, template_date=date)).trained_key
        for date in ("2026-11-28", "2026-11-28", "2026-11-29")
    )
    assert first == again != other


def test_a_template_without_a_date_gets_none(folder: Path, tmp_path: Path) -> None:
    tokenizer: Any = byte_level()
    tokenizer.chat_template = CHAT_TEMPLATES["Llama 2, spaces around the answer"][0]
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    assert template_date(TrialSpec(target_path=str(tmp_path), template="chat")) is None
