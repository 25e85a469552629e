"""The command line as a process: what it imports, how it is interrupted, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
REFUSED = """
import atexit, runpy, sys
heavy = {"torch", "ray", "mlflow", "transformers"}
atexit.register(lambda: print(*sorted(heavy & set(sys.modules))))
runpy.run_module("sweeper", run_name="__main__")
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_ctrl_c_during_the_start_is_one_line() -> None:
    done = python("-c", INTERRUPTED)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (130, "", 1)


def test_no_help_page_imports_anything_heavy() -> None:
    done = python("-c", HELP, *HEAVY)
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert imported == []
    assert int(count) >= 8


def test_a_refused_command_ends_with_code_2_without_heavy_imports(out: Path, data: Path) -> None:
    (data / "forget01.json").write_text("{}\n")
    tofu = ("--dataset", "tofu", "--data-dir", str(data), "--forget-split", "forget01")
    done = python("-c", REFUSED, "pareto", *tofu, "--out", str(out), "--trials", "0", "--method", "nonsense")
    assert (done.returncode, done.stdout) == (2, "\n"), done.stderr
    assert {line.partition(":")[0] for line in done.stderr.splitlines()} == {"error"}
    assert len(done.stderr.splitlines()) == 3
    assert not out.exists()
