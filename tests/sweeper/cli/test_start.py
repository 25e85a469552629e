"""``python -m sweeper`` where it cannot run says what to do about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sweeper import __main__ as started
from tests.sweeper.cli.conftest import names

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("lacking", ["click", "torch"])
def test_a_python_without_the_environment_is_told_how_to_get_it(lacking: str) -> None:
    hidden = f"import sys; sys.modules['{lacking}'] = None; sys.argv[1:] = ['doctor']; "
    command = [sys.executable, "-c", hidden + "from sweeper.__main__ import start; start()"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert names(line, ["error", sys.executable, lacking, "source .venv/bin/activate"])


def test_a_module_of_our_own_that_is_missing_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sweeper.cli.main", None)
    with pytest.raises(ModuleNotFoundError):
        started.start()


@pytest.mark.parametrize(
    ("name", "value", "told"), [("version_info", (3, 9, 1), "Python 3.11 or newer"), ("platform", "win32", "WSL 2")]
)
def test_a_platform_it_does_not_run_on_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: object, told: str
) -> None:
    monkeypatch.setattr(sys, name, value)
    with pytest.raises(SystemExit) as ended:
        started.start()
    assert ended.value.code == 1
    assert told in capsys.readouterr().err
