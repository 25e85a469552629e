"""Each row of CONTRIBUTING.md's table is tried: a toy is added to a copy of the code with only the files in the row."""

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

from tests.conftest import GOLDEN

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
OBJECTIVE = """
from trainables.objectives.base import ForgetObjective
from trainables.predictions import mean_loss

OBJECTIVE = ForgetObjective(
    name="toy",
    formula="-CE_F / 2",
    loss=lambda batch, options: -mean_loss(batch.token_nll, batch.supervised) / 2,
    citation="Toy 2026",
)
"""
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
DATA_SET = """
from trainables.data.dataset import DataSet
from trainables.data.examples import Example, UnlearningData

def _load(*, limit: int | None = None) -> UnlearningData:
    pairs = tuple(Example(f"What is the square of {n}?", f"It is {n * n}.") for n in range(12))
    forget, retain = pairs[:4], pairs[4:][:limit]
    return UnlearningData("toy", forget, retain, (*retain, *forget), forget, retain)

DATASETS = DataSet(name="toy", modality="language", description="twelve squares; four are forgotten", loader=_load)
"""
FIGURE = '''
from analysis.figures.panels import Line, Panel, PanelFigure
from analysis.tables.sources import Sources

def toy_data(sources: Sources) -> PanelFigure | None:
    """The seconds of each trial."""
    seconds = tuple(float(value) for value in sources.table.trials["wall_seconds"])
    line = Line("trials", tuple(map(float, range(len(seconds)))), seconds, "#0072b2")
    return PanelFigure("toy", "Seconds", (Panel("", "trial", "s", (line,)),))
'''

ADDITIONS = {
    "weighting": Addition(
        {"trainables/weightings/toy.py": WEIGHTING},
        "from trainables.weightings import WEIGHTINGS; from trainables.testing.weightings import check_weighting;"
        "from trainables.methods import parse_method; check_weighting(WEIGHTINGS['toy']);"
        "print(parse_method('npo+toy').weighting.name, 'is a method')",
        "toy is a method",
    ),
    "objective": Addition(
        {"trainables/objectives/toy.py": OBJECTIVE},
        "from trainables.objectives import OBJECTIVES; from trainables.testing.objectives import check_objective;"
        "from trainables.methods import parse_method; check_objective(OBJECTIVES['toy']);"
        "print(parse_method('toy+ngdiff').objective.name, 'is a method')",
        "toy is a method",
    ),
    "metric": Addition(
        {"trainables/metrics/toy.py": METRIC},
        "from sweeper.store.columns import column_dictionary; from trainables.metrics.registry import unknown_names;"
        "from sweeper.settings.objectives import parse_objectives; parse_objectives('toy:max,retain_loss:min');"
        "assert not unknown_names(['toy']); print(column_dictionary()['toy'])",
        "loss of the forget set's worst answer",
    ),
    "data set": Addition(
        {"trainables/data/toy.py": DATA_SET},
        "from trainables.data import DATASETS; from trainables.testing.datasets import check_dataset;"
        "check_dataset(DATASETS['toy'], limit=5);" + command("list", "datasets"),
        "twelve squares",
    ),
    "model": Addition(
        {
            "trainables/models/registry.py": (
                '    _full_model("falcon-1b"',
                '    _full_model("toy-1b", "toys/toy-1b", "a toy"),\n',
            )
        },
        command("list", "models"),
        "toy-1b",
    ),
    "rule of AutoLR": Addition(
        {
            "trainables/auto_lr/rules.py": (
                '        "clip": from_minimum(',
                '        "toy": from_minimum(lambda eta, minimum: eta / 2),\n',
            )
        },
        "from trainables.spec import TrialSpec; from trainables.spec_checks import trial_problems;"
        "print(trial_problems(TrialSpec(auto_lr='on', auto_lr_smoothing='toy')))",
        "[]",
    ),
    "figure": Addition(
        {
            "analysis/figures/toy.py": FIGURE,
            "analysis/figures/gallery.py": (
                '    ("courses", metrics_data),',
                '    ("courses", __import__("analysis.figures.toy", fromlist=["toy"]).toy_data),\n',
            ),
        },
        "from pathlib import Path; from analysis.figures.gallery import gallery;"
        "from analysis.figures.svg import save_figure; from analysis.tables.sources import read_source;"
        "from analysis.figures.panels import draw_panels; from analysis.tables.tasks import by_task;"
        f"parts, _ = by_task(read_source(Path({str(GOLDEN)!r})));"
        "(toy,) = [data for _, data in gallery(parts) if data.name == 'toy'];"
        "save_figure(draw_panels(toy), Path('figures'), 'toy'); print(*Path('figures').iterdir())",
        "toy.svg",
    ),
    "column": Addition(
        {
            "sweeper/store/columns.py": (
                '    _Column("seconds", "cost", "training and evaluation", "s"),',
                '    _Column("toy", "course", "steps left", "steps"),\n',
            ),
            "trainables/run/reports.py": ('            "seconds"', '            "toy": 7,\n'),
        },
        "from sweeper.store.columns import HISTORY_COLUMNS, column_dictionary;"
        "from trainables.run.reports import EpochReport;"
        "assert 'toy' in HISTORY_COLUMNS; row = EpochReport(1, 1.0, {}, {}).row();"
        "print(column_dictionary()['toy'], row['toy'])",
        "'steps left', 'unit': 'steps'} 7",
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
    "option of a sweep": Addition(
        {
            "sweeper/settings/fields.py": (
                '    option("copy_to", "Copy',
                '    _integer("toy", "How warm.", PARETO, default=3, low=1),\n',
            ),
            "sweeper/settings/sweep_settings.py": (
                '    sampler: str = _DEFAULT["sampler"]',
                '    toy: int = _DEFAULT["toy"]\n',
            ),
        },
        "from sweeper.settings.resolve import resolve; from sweeper.settings.sources import from_python;"
        "assert resolve('pareto', from_python('pareto', {'toy': '5'})).settings.toy == 5;"
        + command("pareto", "--help"),
        "--toy INTEGER",
    ),
    "option of another command": Addition(
        {
            "sweeper/settings/fields.py": (
                '    option("copy_to", "Copy',
                '    _integer("toy", "How warm.", PICK, default=3, low=1),\n',
            )
        },
        "from sweeper.settings.sources import Options, from_python;"
        "assert Options('pick', from_python('pick', {'toy': '5'}))['toy'] == 5;" + command("pick", "--help"),
        "--toy INTEGER",
    ),
    "sampler": Addition(
        {
            "sweeper/search/samplers.py": (
                '    "nsga2": _genetic("NSGAIISampler"),',
                '    "toy": lambda search: __import__("optuna").samplers.QMCSampler(seed=search.seed),\n',
            ),
            "sweeper/settings/names.py": ('"qmc", "random", "grid")', '"toy", '),
        },
        "from sweeper.settings.resolve import resolve; from sweeper.settings.sources import from_python;"
        "assert resolve('pareto', from_python('pareto', {'sampler': 'toy'})).settings.sampler == 'toy';"
        "from search_spaces.space import Space; from sweeper.search.samplers import SAMPLERS, Search;"
        "print(SAMPLERS['toy'](Search(space=Space(), trials=8)))",
        "QMCSampler",
    ),
    "scheduler": Addition(
        {
            "sweeper/search/schedulers.py": (
                '    "moasha": SuccessiveHalving,',
                '    "toy": lambda axes, *, epochs, grace, reduction, mode: SuccessiveHalving(\n'
                "        axes, epochs=epochs, grace=epochs // 2, reduction=reduction, mode=mode\n    ),\n",
            ),
            "sweeper/settings/names.py": ('"moasha")', '"toy", '),
        },
        "from sweeper.search.schedulers import SCHEDULERS;"
        "from sweeper.settings.resolve import resolve; from sweeper.settings.sources import from_python;"
        "assert resolve('pareto', from_python('pareto', {'scheduler': 'toy'})).settings.scheduler == 'toy';"
        "print(SCHEDULERS['toy']([(1, 0)], epochs=8, grace=1, reduction=2, mode='stop').rungs)",
        "(4,)",
    ),
}


def table() -> dict[str, set[str]]:
    """Return the files in each row of CONTRIBUTING.md's table, with ``toy`` for NAME."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return {what: {path.replace("NAME", "toy") for path in re.findall(r"`([^`]+)`", files)} for what, files in rows}


def test_every_row_of_the_table_is_tried_with_the_files_it_names() -> None:
    assert table() == {what: set(addition.files) for what, addition in ADDITIONS.items()}


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
