"""Checks of files."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import pytest

from search_spaces.common.durable import exclusive
from sweeper.checks.world import output_problems, resolve_and_check
from sweeper.settings.options import RunOptions
from sweeper.settings.sources import from_python
from sweeper.store.unfinished_run import RUN_FILE
from trainables.spec import TrialSpec


def test_the_folder_of_a_run_that_failed_before_it_wrote_a_file_is_still_empty(tmp_path: Path) -> None:
    with exclusive(tmp_path, RuntimeError()):
        pass
    assert output_problems(str(tmp_path)) == []
    (tmp_path / "thesis.tex").touch()
    assert len(output_problems(str(tmp_path))) == 1


def test_an_unfinished_run_keeps_the_date_of_its_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(TrialSpec(), template_date="2026-11-27")
    content = {"spec": spec.to_dict(), "landscape_points": 0, "command": "", "threads": 1, "plugins": []}
    (tmp_path / RUN_FILE).write_text(json.dumps(content))
    monkeypatch.setattr("trainables.target.template_date.is_chat", lambda template: True)
    monkeypatch.setattr("trainables.target.template_date.uses_date", lambda tokenizer: True)
    monkeypatch.setattr("trainables.target.template_date.load_tokenizer", lambda source: None)
    monkeypatch.setattr("sweeper.checks.world.check_files_and_services", lambda resolved, continues: resolved)
    raw = from_python(RunOptions, {"out": str(tmp_path), "model": "phi-1.5"})
    assert resolve_and_check(RunOptions, raw, continues=True).base.template_date == "2026-11-27"
    assert resolve_and_check(RunOptions, raw).base.template_date == datetime.date.today().isoformat()
