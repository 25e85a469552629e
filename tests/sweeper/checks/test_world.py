"""Checks of files."""

from __future__ import annotations

from pathlib import Path

from search_spaces.common.durable import exclusive
from sweeper.checks.world import output_problems


def test_the_folder_of_a_run_that_failed_before_it_wrote_a_file_is_still_empty(tmp_path: Path) -> None:
    with exclusive(tmp_path, RuntimeError()):
        pass
    assert output_problems(str(tmp_path)) == []
    (tmp_path / "thesis.tex").touch()
    assert len(output_problems(str(tmp_path))) == 1
