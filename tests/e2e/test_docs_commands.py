"""The commands of the docs on finished sweeps run on small sweeps, and docs/python.md runs as one program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli.main import main
from tests.e2e.conftest import Cli
from tests.pages import BEGIN, ROOT, benchmarks, run_by_all

pytestmark = [pytest.mark.slow, pytest.mark.ray]


ELSEWHERE = {
    "ui": "tests/sweeper/cli/test_ui.py",
    "doctor": "tests/sweeper/execution/test_nodes.py",
    "target": "tests/e2e/test_scores.py",
    "evaluate": "tests/e2e/test_scores.py",
    "confirm": "tests/e2e/test_confirm.py",
    "audit": "tests/e2e/test_audit.py",
    "--watch": "tests/sweeper/cli/test_page_server.py",
}
"""Commands that need no sweep or a sweep with an answer, or that run until Ctrl-C, and the tests that run them."""
COMMANDS = [command for command in run_by_all() if not command.only_plans and not ELSEWHERE.keys() & command.words]


@pytest.fixture(scope="module")
def place(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sweeps and studies that the pages name."""
    folder = tmp_path_factory.mktemp("typed")
    sweep, studies = cli.new("typed"), [cli.new(f"typed-{seed}") for seed in (101, 102)]
    few = ("--epochs", "3", "--batch-size", "5", "--gpus-per-trial", "0", "--json")
    cli.run(*cli.pareto(sweep, *few, "--sampler", "random", "--trials", "3"))
    for study in studies:
        seed = study.out.name.rpartition("-")[2]
        rates = (
            "--lr",
            "1e-3",
            "--lr",
            "1e-2",
            "--auto-lr-start-lr",
            "1e-3",
            "--seeds",
            "1",
            "--describe",
            "--seed",
            seed,
        )
        tracked = ("--tracking-uri", cli.tracking_uri, "--out", study.out)
        cli.run("lr-study", *cli.problem, *few, "--method", "ngdiff", *rates, *tracked)
    for name in ("SWEEP", "LAST", "PARETO", "STUDY", "first"):
        shutil.copytree(sweep.out, folder / "runs" / name)
    for study, name in zip(studies, ("runs/A", "runs/B"), strict=True):
        shutil.copytree(study.out, folder / name)
    shutil.copy(sweep.out / "trials.csv", folder / "theirs.csv")
    (folder / "sweep.yaml").write_text("method: [gdiff]\ntrials: 4\n")
    (folder / "points.yaml").write_text("- {lr: 1e-3, c: 0.5}\n")
    return folder


def test_the_commands_of_the_pages_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    wrong = []
    for command in COMMANDS:
        # Commands that would train for a long time are run with --dry-run.
        long = (command.words[0] in BEGIN and "--from" not in command.words) or "--trials" in command.words
        typed = [*command.words, *(["--dry-run"] if long else [])]
        done = CliRunner().invoke(main, typed)
        if done.exit_code:
            wrong.append(f"{command}: exit code {done.exit_code}\n{done.output}{done.exception!r}")
    assert not wrong, "\n\n".join(wrong)
    for made in ("runs/together/report.html", "both.json", "again.yaml", "my-model/config.json"):
        assert (place / made).is_file()


def test_other_commands_are_run_elsewhere() -> None:
    assert len(COMMANDS) > 15
    for name, test in ELSEWHERE.items():
        assert f'"{name}"' in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [words for words in benchmarks() if "docs/data" in " ".join(words)], ids=" ".join)
def test_a_table_of_a_study_is_printed_from_its_rows(words: tuple[str, ...], tmp_path: Path) -> None:
    arguments = [str(ROOT / word) if word.startswith("docs/") else word for word in words[1:]]
    if not {"--table", "--figure"} & {*words}:
        arguments.append("--table")  # the command would make the missing runs
    assert "|" in python(tmp_path, ROOT / words[0], *arguments) or (tmp_path / "FILE.png").is_file()


def test_the_page_on_python_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    (tmp_path / "page.py").write_text("\n".join(blocks))
    printed = python(tmp_path, "page.py")
    assert re.search(r"^4 \{.*'finished': ", printed, flags=re.MULTILINE)
    assert "pareto" in printed
    assert "did you mean 'ngdiff'?" in printed
    assert "epochs must be at least 1" in printed
    assert (tmp_path / "frontier.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "runs" / "first" / "report.html").is_file()


def python(folder: Path, *words: str | Path) -> str:
    """Run Python in a folder with an empty cache, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
