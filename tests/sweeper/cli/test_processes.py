"""The command line as a process: its imports, interruption, exit codes, and unsupported platforms."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper import __main__ as started
from tests.sweeper.cli.conftest import names

ROOT = Path(__file__).parents[3]
HEAVY = {"torch", "ray", "mlflow", "optuna", "transformers", "datasets", "pandas", "matplotlib"}
HELP = """
import sys
from click.testing import CliRunner
from sweeper.cli.main import main
runner = CliRunner()
for name in ("", *main.commands):
    result = runner.invoke(main, [*([name] if name else []), "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output, result.output
for wrong in (["pareto", "--c", "7"], ["unlearn", "--target-path", "nowhere"], ["resume", "nowhere"]):
    assert runner.invoke(main, wrong).exit_code == 2
print(len(main.commands), *sorted(set(sys.argv[1:]) & set(sys.modules)))
"""
INTERRUPTED = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
class Finder:
    def find_spec(self, name, *rest):
        if name == "sweeper.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["sweeper", "list", "methods"]
runpy.run_module("sweeper", run_name="__main__")
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_ctrl_c_during_the_start_is_one_line() -> None:
    done = python("-c", INTERRUPTED)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (130, "", 1)


def test_help_pages_and_usage_errors_import_nothing_heavy() -> None:
    done = python("-c", HELP, *HEAVY)
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert imported == []
    assert int(count) >= 8


def test_a_python_without_the_environment_gets_the_command_that_activates_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start() -> None:
        monkeypatch.setattr("sweeper.cli.main.main", lambda: importlib.import_module(lacking))
        started.start()

    lacking = "sweeper.cli.nothing"
    with pytest.raises(ModuleNotFoundError):  # a module of this project: a bug
        start()
    lacking = "torchless"
    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 1
    assert names(capsys.readouterr().err, ["error", sys.executable, lacking, "source .venv/bin/activate"])


@pytest.mark.parametrize(
    ("name", "value", "shown"), [("version_info", (3, 9, 1), "Python 3.11 or newer"), ("platform", "win32", "WSL 2")]
)
def test_an_unsupported_platform_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: object, shown: str
) -> None:
    monkeypatch.setattr(sys, name, value)
    with pytest.raises(SystemExit) as ended:
        started.start()
    assert ended.value.code == 1
    assert shown in capsys.readouterr().err
