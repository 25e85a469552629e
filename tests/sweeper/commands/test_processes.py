"""The command line as a process: what it imports, how it is interrupted, how it leaves the shell."""

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
from sweeper.cli import main
runner = CliRunner()
for name in ("", *main.commands):
    result = runner.invoke(main, [*([name] if name else []), "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output, result.output
print(len(main.commands), *sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ctrl_c_during_the_start_is_one_line() -> None:
    code = (
        "import os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'sweeper.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['sweeper', 'list', 'methods']\n"
        "runpy.run_module('sweeper', run_name='__main__')\n"
    )
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_no_help_page_imports_anything_heavy() -> None:
    done = python("-c", HELP, *HEAVY)
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert imported == []
    assert int(count) >= 8


def test_a_refused_command_leaves_the_shell_with_code_2_and_no_traceback(out: Path) -> None:
    done = python("-m", "sweeper", "pareto", "--trials", "0", "--method", "nonsense", "--out", str(out))
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "error"]
    assert not out.exists()


def test_a_refused_command_imports_nothing_heavy(out: Path, data: Path) -> None:
    (data / "forget01.json").write_text("{}\n")
    code = f"""
import sys
from sweeper.cli import main
try:
    main({["pareto", "--dataset", "tofu", "--data-dir", str(data), "--forget-split", "forget01", "--out", str(out)]!r})
except SystemExit as end:
    print(end.code, *sorted({{"torch", "ray", "mlflow", "transformers"}} & set(sys.modules)))
"""
    done = python("-c", code)
    assert done.stdout.split() == ["2"], done.stdout + done.stderr
