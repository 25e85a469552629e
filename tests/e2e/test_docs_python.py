"""The code blocks of docs/python.md run in order, in one interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray]

ROOT = Path(__file__).parents[2]


def test_the_page_on_python_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    (tmp_path / "page.py").write_text("\n".join(blocks))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"^4 \{.*'finished': ", result.stdout, flags=re.MULTILINE)
    assert "pareto" in result.stdout
    assert "did you mean 'ngdiff'?" in result.stdout
    assert "epochs must be at least 1" in result.stdout
    assert (tmp_path / "frontier.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "runs" / "first" / "report.html").is_file()
