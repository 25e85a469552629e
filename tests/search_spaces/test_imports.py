"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["search_spaces", "search_spaces.user_yaml"])
def test_importing_search_spaces_loads_no_heavy_library_and_no_sister_package(module: str) -> None:
    heavy = ("torch", "ray", "optuna", "transformers", "numpy", "trainables", "sweeper", "analysis")
    script = f"import sys, {module}; print(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
