"""The commands in docs/running.md exist and do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sweeper.checks.trial_time import TrialPace
from tests.sweeper.cli.conftest import invoke

PAGE = Path(__file__).parents[3] / "docs" / "running.md"
COMMANDS = re.findall(r"^    python -m sweeper (.*?)(?:  +#.*)?$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
ELSEWHERE = {
    "resume runs/SWEEP": "tests/e2e/test_output.py",
    "resume runs/SWEEP --trials 64 --dry-run": "tests/sweeper/cli/test_dry_run.py",
}
"""Commands that train or that do not end, with the files that test them."""


def test_the_page_has_the_commands_that_this_file_runs() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"pareto", "status", "stop", "resume"}
    assert set(ELSEWHERE) < set(COMMANDS)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - ELSEWHERE.keys()))
def test_a_command_of_the_page_runs(command: str, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = TrialPace(epoch=2.0, beside=1.0, source="a short run", memory=10**9)
    monkeypatch.setattr("sweeper.checks.plan.measured_pace", lambda spec, *, console: pace)
    monkeypatch.setattr("analysis.report.report.write_report", lambda out, sources: None)
    result = invoke(*shlex.split(command.replace("runs/SWEEP", str(golden))))
    assert result.exit_code == (2 if command.startswith("stop") else 0), "stop: the sweep does not run"
    assert result.output
