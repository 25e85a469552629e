"""Four rows of CONTRIBUTING.md's table are tried: a toy is added to a copy of the code in the files of the row."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("search_spaces", "trainables", "sweeper", "analysis")


@dataclass(frozen=True)
class Addition:
    """An addition to the code, and a program ``check`` whose output must contain ``expected`` afterwards.

    ``files`` has the text of a new file, or ``(anchor, text)``: a text to insert before an anchor.
    """

    files: Mapping[str, str | tuple[str, str]]
    check: str
    expected: str


def command(*words: str) -> str:
    """Return a program that runs one of the project's commands."""
    return f"import sys; sys.argv[1:] = {list(words)!r}; from sweeper.cli.main import main; main()"


WEIGHTING = '''
from trainables.weightings.base import Gramian, Needs, Weighting, Weights, of_gramian

def weights(gramian: Gramian) -> Weights:
    """Each gradient counts as the other is large."""
    total = gramian.rho + gramian.phi
    return Weights(gramian.phi / total, gramian.rho / total) if total != 0 else Weights(0.5, 0.5)

WEIGHTING = Weighting(
    name="toy", formula="(phi, rho)", needs=Needs.GRAMIAN, weigh=of_gramian(weights), citation="Toy 2026"
)
'''
METRIC = """
from trainables.metrics.metric import Cost, Metric

METRICS = (
    Metric(
        name="toy",
        label="loss of the forget set's worst answer",
        unit="nats per token",
        direction="max",
        low=0.0,
        high=20.0,
        of="forget",
        cost=Cost.FORWARD,
        formula="max loss per answer",
        citation="Toy 2026",
        measure=lambda scores: float(scores.losses("forget").max()),
    ),
)
"""
ADDITIONS = {
    "weighting": Addition(
        {"trainables/weightings/toy.py": WEIGHTING},
        "from trainables.weightings import WEIGHTINGS; from trainables.testing.weightings import check_weighting;"
        "from trainables.methods import parse_method; check_weighting(WEIGHTINGS['toy']);"
        "print(parse_method('npo+toy').weighting.name, 'is a method')",
        "toy is a method",
    ),
    "metric": Addition(
        {"trainables/metrics/toy.py": METRIC},
        "from sweeper.store.columns import column_dictionary; from trainables.metrics.registry import unknown_names;"
        "from sweeper.settings.objectives import parse_objectives; parse_objectives('toy:max,retain_loss:min');"
        "assert not unknown_names(['toy']); print(column_dictionary()['toy'])",
        "loss of the forget set's worst answer",
    ),
    "flag of a trial": Addition(
        {
            "trainables/spec.py": (
                "    batch_size: int = setting(",
                '    toy: int = setting("training", 3, "Toys per step.", low=1)\n',
            )
        },
        "from trainables.spec import TrialSpec; from sweeper.store.columns import TRIAL_COLUMNS;"
        "from trainables.spec_checks import trial_problems;"
        "assert 'toy' in TRIAL_COLUMNS;"
        "assert TrialSpec(toy=4).spec_hash != TrialSpec().spec_hash;"
        "print(trial_problems(TrialSpec(toy=0)));" + command("pareto", "--help"),
        "--toy",
    ),
    "option": Addition(
        {
            "sweeper/settings/options.py": (
                "    keep_checkpoints: str | None = option(",
                '    toy: int = option(3, "How warm.", low=1)\n',
            ),
        },
        "from sweeper.settings.options import ParetoOptions; from sweeper.settings.resolve import resolve;"
        "from sweeper.settings.sources import from_python;"
        "assert resolve(ParetoOptions, from_python(ParetoOptions, {'toy': '5'})).settings.toy == 5;"
        + command("pareto", "--help"),
        "--toy INTEGER",
    ),
    "command": Addition(
        {
            "sweeper/settings/options.py": (
                "COMMANDS: Mapping[",
                "@dataclass(frozen=True, kw_only=True)\n"
                "class ToyOptions(Options):\n"
                '    command: ClassVar[str] = "toy"\n\n'
                '    warmth: int = option(3, "How warm.", low=1)\n\n\n',
            ),
            "sweeper/cli/results.py": (
                "def _choice_lines(",
                "from sweeper.settings.options import ToyOptions\n"
                "from sweeper.settings.reading import read_valid\n\n\n"
                "@command(ToyOptions)\n"
                "def toy(raw: Raw, problems: list[str]) -> None:\n"
                '    click.echo(f"{read_valid(ToyOptions, raw, problems).warmth} is warm")\n\n\n',
            ),
        },
        command("toy", "--warmth", "7"),
        "7 is warm",
    ),
}


def table() -> dict[str, set[str]]:
    """Return the files in each row of CONTRIBUTING.md's table, with ``toy`` for NAME."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return {what: {path.replace("NAME", "toy") for path in re.findall(r"`([^`]+)`", files)} for what, files in rows}


def test_the_files_in_the_table_exist_and_the_additions_change_only_the_files_of_their_row() -> None:
    rows = table()
    assert {what: set(addition.files) for what, addition in ADDITIONS.items()}.items() <= rows.items()
    for path in set().union(*rows.values()):
        assert (ROOT / path).parent.is_dir() if path.endswith("/toy.py") else (ROOT / path).is_file(), path


@pytest.mark.slow
@pytest.mark.parametrize("what", ADDITIONS)
def test_the_added_toy_works(what: str, tmp_path: Path) -> None:
    addition = ADDITIONS[what]
    code = tmp_path / "code"
    for package in PACKAGES:
        # The bytecode of unchanged files stays valid. Files *.pyc.* are being written by another process.
        shutil.copytree(ROOT / package, code / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name, change in addition.files.items():
        path = code / name
        if isinstance(change, str):
            assert not path.exists()
            path.write_text(change, encoding="utf-8")
            continue
        before, (anchor, text) = path.read_text(encoding="utf-8"), change
        assert before.count(anchor) == 1, f"{name} contains the anchor not exactly once: '{anchor}'"
        path.write_text(before.replace(anchor, text + anchor), encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(code), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", addition.check], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert addition.expected in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
