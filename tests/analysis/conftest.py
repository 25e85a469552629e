"""Fixtures that write small sweep folders in the sweeper's format."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG

from analysis.study.lr_grid import LrGrid, lr_grid
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from sweeper.store.columns import HISTORY_COLUMNS, TRIAL_COLUMNS, column_dictionary

Row = dict[str, object]
MakeSweep = Callable[..., Path]
MakeRow = Callable[..., dict[str, object]]
MakeGrid = Callable[..., LrGrid]

GUESS = 8.0
OBJECTIVES = tuple(
    {"name": name, "column": column, "direction": way, "low": 0.0, "high": GUESS, "label": f"{label} (nats per token)"}
    for name, column, way, label in (
        ("forget_loss", "forget_loss_capped", "max", "forget loss"),
        ("retain_loss", "retain_loss", "min", "retain loss"),
    )
)
BASELINE = {"forget_loss": 0.04, "forget_loss_capped": 0.04, "retain_loss": 0.05, "verbmem": 0.9, "utility": 0.8}


def trial(trial_id: str, forget: float | None, retain: float | None, /, **fields: object) -> Row:
    """Return a row of trials.csv; by default, a finished ngdiff trial."""
    capped = min(forget, GUESS) if forget is not None else None
    return {
        "trial_id": trial_id,
        "spec_hash": f"0{trial_id}e5",
        "model": "tiny-phi",
        "dataset": "authors",
        "method": "ngdiff",
        "lr": 1e-4,
        "auto_lr": "off",
        "seed": 0,
        "optimizer": "adamw",
        "epochs": 3,
        "auto_lr_probe": "fresh",
        "batch_size": 8,
        "target_key": "0011",
        "status": "finished",
        "steps": 30,
        "epochs_done": 3.0,
        "checkpoint": f"checkpoints/{trial_id}",
        "forget_loss": forget,
        "retain_loss": retain,
        "forget_loss_capped": capped,
        "train_seconds": 6.0,
        "eval_seconds": 3.0,
        "wall_seconds": 10.0,
        **fields,
    }


def report(trial_id: str, step: int, forget: float, retain: float, /, **fields: object) -> Row:
    """Return a row of history.csv."""
    return {
        "trial_id": trial_id,
        "step": step,
        "epoch": step / 10,
        "lr": 1e-4,
        "c_t": 0.5,
        "seconds": step * 0.2,
        "forget_loss": forget,
        "retain_loss": retain,
        **fields,
    }


def external_csv(folder: Path, text: str) -> Path:
    """Write a table of results from another program."""
    path = folder / "theirs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def tables_of(out: Path) -> tuple[TrialTable, SweepFile]:
    return TrialTable.read(out), SweepFile.read(out)


def _blank_svg(canvas: object, target: Any, **_: object) -> None:
    target.write('<svg xmlns="http://www.w3.org/2000/svg"><g id="all"/></svg>')


@contextmanager
def without_rendering() -> Iterator[None]:
    """Draw figures but save them as empty SVG files, because rendering takes most of the time of a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FigureCanvasAgg, "print_png", lambda *_, **__: None)
        patch.setattr(FigureCanvasSVG, "print_svg", _blank_svg)
        yield


@pytest.fixture
def blank_figures() -> Iterator[None]:
    """Disable rendering, for tests that do not look at figures."""
    with without_rendering():
        yield


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write a CSV file in which missing values are empty cells."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if row.get(name) is None else row[name] for name in columns] for row in rows])


def _sweep_maker(tmp_path: Path) -> MakeSweep:
    def make(
        rows: Sequence[Mapping[str, object]] | None,
        history: Sequence[Mapping[str, object]] | None = None,
        *,
        name: str = "out",
        **entries: object,
    ) -> Path:
        out = tmp_path / name
        out.mkdir()
        content = {
            "format": 2,
            "columns": column_dictionary(random_guess=GUESS, unit="token"),
            "name": "a-sweep",
            "created": "2026-01-02T03:04:05+00:00",
            "command": "python -m sweeper pareto --method ngdiff",
            "versions": {"torch": "2.13.0"},
            "settings": {"base": {"model": "tiny-phi", "dataset": "authors"}, "trials": len(rows or ())},
            "objectives": OBJECTIVES,
            "random_guess_loss": GUESS,
            "vocabulary_size": 2981,
            "baseline": BASELINE,
        }
        (out / "sweep.json").write_text(json.dumps(content | entries), encoding="utf-8")
        if rows is not None:
            names = dict.fromkeys([*TRIAL_COLUMNS, *(name for item in rows for name in item)])
            _write_csv(out / "trials.csv", list(names), rows)
        if history is not None:
            _write_csv(out / "history.csv", HISTORY_COLUMNS, history)
        return out

    return make


@pytest.fixture
def make_sweep(tmp_path: Path) -> MakeSweep:
    """``make_sweep(rows, history, **entries of sweep.json)`` writes a folder (no trials.csv if ``rows`` is None)."""
    return _sweep_maker(tmp_path)


@pytest.fixture(scope="module")
def make_sweep_once(tmp_path_factory: pytest.TempPathFactory) -> MakeSweep:
    """``make_sweep`` for a folder that the tests of a module share and do not change."""
    return _sweep_maker(tmp_path_factory.mktemp("sweeps"))


@pytest.fixture
def row() -> MakeRow:
    """Return a finished trial (gdiff, c = 0.5) whose hypervolume is ``volume``."""
    count = iter(range(100_000))

    def make(volume: float, lr: float, seed: int, *, auto: bool = False, **fields: object) -> dict[str, object]:
        edge = GUESS * math.sqrt(volume)
        own = {"lr": lr, "seed": seed, "auto_lr": "gen-clip" if auto else "off", "method": "gdiff", "c": 0.5}
        return trial(f"{next(count):05d}", edge, GUESS - edge, **(own | fields))

    return make


@pytest.fixture
def grid(make_sweep: MakeSweep) -> MakeGrid:
    """``grid(rows, rows, ...)`` writes a sweep for each argument and returns their learning-rate grid."""
    names = iter(f"sweep-{index}" for index in range(100))

    def make(*tables: Sequence[Row]) -> LrGrid:
        folders = [make_sweep(list(rows), name=next(names)) for rows in tables]
        return lr_grid([(TrialTable.read(out, sweep=out.name), SweepFile.read(out).objectives) for out in folders])

    return make
