"""Plan and run the sweeps of a leaderboard: one cell for each method, problem and training seed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.leaderboard.board import Board, boards, checked_cells
from analysis.leaderboard.cell import COLUMNS, cell_row, with_key
from analysis.report.leaderboard_text import board_content, board_markdown, board_table
from search_spaces.common.durable import exclusive, is_locked, wait_for_lock, write_atomically, write_json
from sweeper.api import Sweep
from sweeper.checks.plan import plan_of_sweep
from sweeper.checks.world import resolve_and_check
from sweeper.execution.cluster import Cluster
from sweeper.settings.fields import fields_of
from sweeper.settings.options import LeaderboardOptions, ParetoOptions, PlacementFields
from sweeper.settings.reading import Problem, located, read
from sweeper.settings.sources import PYTHON, Given, Problems, Raw, raise_if_any
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import begin, read_settings
from sweeper.store.plugins import plugin_records, stored_records
from trainables.data import DATASETS
from trainables.spec import FIELDS

CELLS, ROW = "cells.csv", "cell.json"
_OWN = {
    "model": "--problem names the model",
    "dataset": "--problem names the data set",
    "forget_split": "--problem names the split",
    "seed": "each cell has its own seed",
    "trials": "--epoch-budget ends the search",
    "interpolate": "every cell uses 'on', which makes the models at equal retention",
}
"""The options of ``pareto`` that a leaderboard does not accept, with the reasons."""


@dataclass(frozen=True, slots=True)
class CellJob:
    """A cell to run.

    Attributes:
        method: the name of a method, or METHOD:UPDATE.
        forget_split: "" for the default split of the data set.
    """

    method: str
    model: str
    dataset: str
    forget_split: str
    seed: int

    def __str__(self) -> str:
        problem = ":".join(filter(None, (self.model, self.dataset, self.forget_split)))
        return f"{self.method} on {problem}, seed {self.seed}"

    def folder(self, out: Path) -> Path:
        """Return the folder of the cell's sweep."""
        problem = "-".join(filter(None, (self.model, self.dataset, self.forget_split)))
        method = self.method.replace(":", "-")
        return out / "cells" / problem.replace("/", "_") / method.replace("/", "_") / f"seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class BoardPlan:
    """The cells of a leaderboard, and what remains to be run.

    Attributes:
        missing: the cells without a result.
        epochs: the epochs of search of the missing cells, without fresh runs and targets.
        targets: the number of targets, which methods share.
        fresh_runs: the number of fresh runs of the missing cells, if the first recommended model of each cell holds.
        seconds: the estimated duration of the search of the missing cells; None if unknown.
    """

    cells: tuple[CellJob, ...]
    missing: tuple[CellJob, ...]
    epochs: int
    targets: int
    fresh_runs: int
    seconds: float | None

    def to_dict(self) -> dict[str, object]:
        """Return the JSON output of ``--dry-run``."""
        numbers = {name: getattr(self, name) for name in ("epochs", "targets", "fresh_runs", "seconds")}
        return {"cells": len(self.cells), "missing": [str(job) for job in self.missing], **numbers}


def cell_jobs(options: LeaderboardOptions) -> list[CellJob]:
    """Return the cells, seed by seed, so that an interrupted leaderboard has complete seeds.

    The seeds of the cells are so far apart that no fresh run uses the training seed of another cell.
    """
    seeds = [index * (1 + int(options.confirm or 0)) for index in range(options.seeds)]
    problems = [(*problem.split(":"), "")[:3] for problem in options.problem]
    methods = dict.fromkeys(options.method)
    return [
        CellJob(method, model, dataset, split, seed)
        for seed, (model, dataset, split), method in itertools.product(seeds, problems, methods)
    ]


def board_problems(options: LeaderboardOptions) -> Iterator[Problem]:
    """Yield the problems with the options that can be found without reading a registry."""
    if options.epoch_budget is None and "epoch_budget" not in options.raw:
        yield Problem(
            "a leaderboard compares methods at one budget: give --epoch-budget N, the number of epochs after which the "
            "search of each cell starts no new trial"
        )
    for name in ("method", "problem", "out"):
        if not getattr(options, name):
            yield Problem(f"a leaderboard needs --{name}, which is not given")
    for problem in options.problem:
        if not _is_problem(problem):
            text = "expected MODEL:DATASET or MODEL:DATASET:SPLIT, such as tiny-phi:authors"
            yield Problem(f"--problem {problem}: {text}", "problem")
    for method in options.method:
        if not _is_method(method):
            yield Problem(f"--method {method}: expected METHOD or METHOD:UPDATE, such as ngdiff:sam", "method")
        elif ":" in method and "update" in options.raw:
            text = f"--method {method} names its update, so --update cannot be used: name the update of each method"
            yield Problem(text, "update")
    for name, reason in _OWN.items():
        if name in options.raw:
            flag = fields_of(LeaderboardOptions)[name].flag
            yield Problem(f"{flag} cannot be used in a leaderboard, because {reason}", name)


def _is_problem(text: str) -> bool:
    return 1 <= text.count(":") <= 2 and all(text.split(":"))


def _is_method(text: str) -> bool:
    return text.count(":") <= 1 and all(text.split(":"))


def checked_settings(raw: Raw, problems: Sequence[str]) -> dict[CellJob, SweepSettings]:
    """Return the settings of every cell. Nothing is written. The plug-ins must be loaded.

    Raises:
        Problems: an option of the leaderboard or of its sweeps is invalid. The exception lists all problems.
    """
    options, found = read(LeaderboardOptions, raw, problems)
    found += board_problems(options)
    usable = replace(
        options,
        method=tuple(filter(_is_method, options.method)),
        problem=tuple(filter(_is_problem, options.problem)),
    )
    jobs = cell_jobs(usable)
    texts = located(found, raw)
    by_problem: dict[CellJob, SweepSettings] = {}
    for job in dict.fromkeys(replace(job, seed=0) for job in jobs):
        try:
            by_problem[job] = _settings(
                _of_problem(raw, job, jobs), job, budget=options.epoch_budget, confirm=options.confirm
            )
        except Problems as error:
            texts += [text for text in error.problems if text not in texts]
    raise_if_any(texts)
    settings = {job: _with_seed(by_problem[replace(job, seed=0)], job.seed) for job in jobs}
    raise_if_any(_changed_cells(settings, Path(str(options.out))))
    return settings


def _changed_cells(settings: dict[CellJob, SweepSettings], out: Path) -> list[str]:
    """Return a message if a cell in ``out`` was begun with other settings, so that it cannot be ranked with new cells.

    Settings that only say where trials run may differ. A plug-in counts as a setting, with its content as the value.
    """
    plugins = _digests(plugin_records())
    for job, cell in settings.items():
        folder = job.folder(out)
        if not (folder / "sweep.json").is_file():
            continue
        previous = _ranked_values(read_settings(folder)) | _digests(stored_records(folder))
        wanted = _ranked_values(cell) | plugins
        if names := [name for name in wanted if name in previous and wanted[name] != previous[name]]:
            text = "; ".join(f"{name} was {previous[name]}, and is now {wanted[name]}" for name in names)
            return [f"{out} has cells with other settings ({text}): give the previous options, or another --out"]
    return []


def _ranked_values(settings: SweepSettings) -> dict[str, object]:
    """Return the settings that all cells of a leaderboard share, and the seed, by name."""
    left_out = {"base", "given", "stored_as", *(item.name for item in fields(PlacementFields))}
    values = {item.name: getattr(settings, item.name) for item in fields(settings) if item.name not in left_out}
    trial = {name: getattr(settings.base, name) for name, item in FIELDS.items() if item.role != "placement"}
    return trial | values


def _digests(plugins: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    return {f"plug-in {plugin['name']}": plugin["digest"] for plugin in plugins}


def _of_problem(raw: Raw, job: CellJob, jobs: Sequence[CellJob]) -> Raw:
    """Return the options for the problem of ``job``: --data-dir is for the problems whose data set needs files."""
    with_files = {
        item.dataset for item in jobs if item.dataset in DATASETS and DATASETS[item.dataset].files is not None
    }
    if job.dataset in with_files or not with_files:
        return raw
    return {name: given for name, given in raw.items() if name != "data_dir"}


def _settings(raw: Raw, job: CellJob, *, budget: int | None, confirm: int | str | None) -> SweepSettings:
    method, _, update = job.method.partition(":")
    values = {
        "method": method,
        **({"update": update} if update else {}),
        "model": job.model,
        "dataset": job.dataset,
        "confirm": confirm,
        "interpolate": "on",
        **({"forget_split": job.forget_split} if job.forget_split else {}),
        # Each trial trains at least one epoch, so the budget ends the search.
        **({"trials": budget} if budget else {}),
    }
    given: dict[str, Sequence[Given]] = {name: raw[name] for name in fields_of(ParetoOptions) if name in raw}
    given |= {name: [Given(str(value), PYTHON)] for name, value in values.items()}
    for name in ("out", "seeds"):
        given.pop(name, None)
    settings = resolve_and_check(ParetoOptions, given).settings
    assert settings is not None
    return settings


def _with_seed(settings: SweepSettings, seed: int) -> SweepSettings:
    """Return the settings for a cell's training seed. A target that is given as a folder has no training seed."""
    has_own_target = settings.base.target_path is None
    settings = replace(settings, seed=seed, base=replace(settings.base, seed=seed))
    return replace(settings, seeds_vary="target" if has_own_target else "order")


def plan_of_board(settings: dict[CellJob, SweepSettings], out: Path) -> BoardPlan:
    """Return what remains to be run."""
    missing = tuple(job for job in settings if not (job.folder(out) / ROW).is_file())
    seconds: float | None = 0.0
    for job in missing:
        estimate = plan_of_sweep(settings[job], job.folder(out)).seconds
        seconds = None if seconds is None or estimate is None else seconds + estimate
    targets = {(job.model, job.dataset, seed) for job in settings for seed in settings[job].target_seeds}
    return BoardPlan(
        cells=tuple(settings),
        missing=missing,
        epochs=sum(settings[job].epoch_budget or 0 for job in missing),
        targets=len(targets),
        fresh_runs=sum(len(settings[job].fresh_seeds) for job in missing),
        seconds=seconds,
    )


def run_cells(settings: dict[CellJob, SweepSettings], out: Path) -> Iterator[tuple[CellJob, str]]:
    """Run the missing cells. Yield each cell with what happened.

    A cell is ``done``, is ``running`` in another process, or is ``incomplete``, because a disk, memory or a node failed
    during its sweep. An incomplete cell has no row; the next call continues it, like an interrupted cell. Several
    processes may run the same leaderboard in one shared folder.

    Raises:
        As :meth:`.Sweep.run`.
    """
    with closing(_SharedCluster()) as shared:
        for job, cell in settings.items():
            folder = job.folder(out)
            if (folder / ROW).is_file():
                continue
            claim = out / "locks" / folder.relative_to(out / "cells")
            claim.mkdir(parents=True, exist_ok=True)
            try:
                with exclusive(claim, _Running()):
                    if (folder / ROW).is_file():  # another process has just finished the cell
                        continue
                    state = _run_cell(job, cell, folder, shared)
            except _Running:
                state = "running"
            yield job, state


class _SharedCluster:
    """The Ray cluster of all cells, because starting Ray can take as long as the trials of a tiny model."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def of(self, cell: SweepSettings) -> Cluster:
        """Return the cluster for a cell. A cluster whose trials are placed in another way is shut down first."""
        if self._cluster is not None and not self._cluster.can_run(cell):
            self.close()
        if self._cluster is None:
            self._cluster = Cluster(cell, is_shared=True)
        return self._cluster

    def close(self) -> None:
        """Shut the cluster down. The next cell starts another one."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


class _Running(Exception):
    """Another process runs the cell."""


def _run_cell(job: CellJob, cell: SweepSettings, folder: Path, shared: _SharedCluster) -> str:
    if not (folder / "sweep.json").is_file():
        begin(cell, folder)
    elif is_locked(folder):  # such as by the command resume
        raise _Running
    summary = Sweep(folder).run(cluster=shared.of(cell))
    if summary.is_incomplete:
        shared.close()  # Ray itself may have failed
        return "incomplete"
    write_json(folder / ROW, with_key(cell_row(folder), **asdict(job), unmeasured=summary.unmeasured))
    return "done"


def collect_cells(out: Path) -> pd.DataFrame:
    """Return the rows of all finished cells in a leaderboard's folder.

    Raises:
        AnalysisError: the cells cannot be ranked together.
    """
    files = sorted((out / "cells").glob(f"*/*/*/{ROW}"))
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return checked_cells(pd.DataFrame(rows, columns=list(COLUMNS)), out)


def update_board(out: Path) -> list[Board]:
    """Write the board of all finished cells in ``out``. Return the boards. Raises as :func:`collect_cells`.

    The processes that share ``out`` take turns, so the last one that writes has read the cells of all others.
    """
    with wait_for_lock(out / "locks" / "board", lambda: None):
        return write_board(out, collect_cells(out))


def write_board(out: Path, cells: pd.DataFrame) -> list[Board]:
    """Write cells.csv and leaderboard.csv, .json and .md. Return the boards."""
    found = boards(cells)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / CELLS, cells.to_csv(index=False))
    write_atomically(out / "leaderboard.csv", board_table(found).to_csv(index=False))
    write_json(out / "leaderboard.json", board_content(found))
    write_atomically(out / "leaderboard.md", board_markdown(found))
    return found
