"""What earlier sweeps know that a new one can use: whole trials, values to learn from, configurations to try first."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.frontier.frontier import contributions, nondominated
from analysis.tables.trade_off import Objective
from search_spaces.durable import link_or_copy, staged
from search_spaces.messages import counted
from search_spaces.values import Value, same
from search_spaces.yaml_nodes import plain_scalar
from sweeper.search.archive import ParetoArchive, Result
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import PARAMETERS
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from trainables.methods import option_names
from trainables.run.reports import Status
from trainables.spec import FIELDS

Row = Mapping[str, str]
_SEARCHED = ("method", "lr", "auto_lr", "seed")


@dataclass(frozen=True, slots=True)
class PreviousSweep:
    """A sweep's folder with its settings and its rows of trials.csv, in the order the trials ended."""

    out: Path
    settings: SweepSettings
    rows: tuple[Row, ...]

    @classmethod
    def read(cls, out: Path) -> PreviousSweep:
        """Raises SweepError where the folder holds no sweep."""
        settings = read_settings(out)
        rows = ResultTables(out).trials.read()
        return cls(out, settings, tuple(sorted(rows, key=lambda row: (float(row["ended_at"] or 0), row["trial_id"]))))


# Warm starts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prior:
    """A trial of an earlier sweep on the same problem: what was run there, what it gave, and where."""

    config: Mapping[str, Value]
    result: Result
    origin: str


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What a new sweep takes from an earlier one, and the sentence that says so."""

    priors: tuple[Prior, ...]
    points: tuple[Mapping[str, Value], ...]
    words: str


def warm_start(
    earlier: PreviousSweep,
    settings: SweepSettings,
    objectives: Sequence[Objective],
    *,
    target_key: str,
    baseline: Mapping[str, float],
    most: int,
) -> WarmStart:
    """What the search learns from an earlier sweep.

    A trial that this sweep would run in just the same way (the same content hash: model, data, target, training) is
    known with its values. Values of another problem are not comparable, so of the others only configurations are taken:
    those of the earlier front, those that add most to its hypervolume first and at most ``most`` of them, are tried
    first. What this sweep's space does not have is left out.
    """
    attained = ParetoArchive(objectives, constraints=settings.parsed_constraints, baseline=baseline)
    candidates = by_trial(ResultTables(earlier.out).candidates.read())
    priors: list[Prior] = []
    others: list[tuple[Mapping[str, Value], Result]] = []
    outside, own = 0, (*_SEARCHED, *option_names())
    finished = [row for row in earlier.rows if row["status"] == Status.FINISHED]
    for row in finished:
        result = attained.add(row, candidates.get(row["trial_id"], ()))
        if result is None:
            continue
        values, fixed = {name: plain_scalar(row[name]) for name in PARAMETERS if name in row}, settings.space.constants
        try:
            if any(name in fixed and not same(fixed[name], values[name]) for name in own if name in values):
                raise ValueError("fixed to another value here")
            config = settings.space.configuration(values | dict(fixed))
            spec = settings.make_spec(config | {"seed": int(row["seed"])}, target_key=target_key)
        except ValueError:
            outside += 1
            continue
        if spec.spec_hash == row["spec_hash"]:
            priors.append(Prior(config, result, f"{earlier.out.name}/{row['trial_id']}"))
        else:
            others.append((settings.space.params_of(config), result))
    points = _front(others, objectives)[:most]
    parts = [f"{counted(len(priors), 'trial')} with their values"] if priors or not points else []
    if points:
        parts.append(f"{len(points)} configurations of its front to be tried first ({_difference(earlier, settings)})")
    if outside:
        parts.append(f"{counted(outside, 'trial')} {'is' if outside == 1 else 'are'} outside this search space")
    words = f"warm start from {earlier.out}, of {len(finished)} finished trials: {'; '.join(parts)}"
    return WarmStart(tuple(priors), tuple(points), words)


def _front(
    found: Sequence[tuple[Mapping[str, Value], Result]], objectives: Sequence[Objective]
) -> list[Mapping[str, Value]]:
    """Their non-dominated configurations, each once, the largest contribution to the hypervolume first."""
    found = [item for item in found if item[1].acceptable]
    if not found:
        return []
    values = np.asarray([result.values for _, result in found]).T
    costs = np.column_stack([item.cost(column) for item, column in zip(objectives, values, strict=True)])
    best = np.flatnonzero(nondominated(costs))
    order = best[np.argsort(-contributions(costs[best]), kind="stable")]
    chosen: list[Mapping[str, Value]] = []
    for index in order:
        if found[index][0] not in chosen:
            chosen.append(found[index][0])
    return chosen


def _difference(earlier: PreviousSweep, settings: SweepSettings) -> str:
    """Which fixed settings of the two sweeps differ."""
    varied = {*_SEARCHED, *(item.name for item in (*earlier.settings.space.parameters, *settings.space.parameters))}
    there, here = (
        {**item.base.values(), **{name: item.space.constants[name] for name in item.space.constants if name in FIELDS}}
        for item in (earlier.settings, settings)
    )
    found = [
        f"{name} {there[name]} there, {here[name]} here"
        for name, item in FIELDS.items()
        if item.decides and name not in varied and there[name] != here[name]
    ]
    return "; ".join(found) or "another target"


# Trials taken over ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedTrial:
    """A trial of an earlier sweep, by its content hash, with all its rows."""

    out: Path
    row: Row
    history: tuple[Row, ...]
    auto_lr: tuple[Row, ...]
    candidates: tuple[Row, ...]

    @property
    def origin(self) -> str:
        """The folder and the trial."""
        return f"{self.out}/{self.row['trial_id']}"

    def reports(self) -> Iterator[dict[str, Any]]:
        """What it reported, epoch by epoch, as a worker does."""
        updates = by_trial(self.auto_lr, key="step")
        candidates = {row["step"]: row for row in self.candidates}
        stale = self.history[-1]["step"] if self.history and self.row["status"] == Status.DIVERGED else None
        for row in self.history:
            step = row["step"]
            report = _values(row) | {"step": int(step), "epoch": float(row["epoch"])}
            report["auto_lr"] = [_values(update) for update in updates.get(step, ())]
            # Of a sweep whose last epochs alone are candidates every epoch with losses was evaluated.
            evaluated = step in candidates if candidates else step != stale and bool(row.get("forget_loss"))
            yield report | {"evaluated": evaluated}

    def outcome(self, trial_id: str) -> dict[str, object]:
        """How it ended, as the row of the trial ``trial_id`` of a new sweep has it."""
        texts = ("status", "checkpoint", "error", "worker")
        found: dict[str, object] = {
            name: text if name in texts else plain_scalar(text)
            for name, text in self.row.items()
            if text and name not in ("trial_id", "spec_hash", *PARAMETERS)
        }
        if checkpoint := self.row.get("checkpoint"):
            found["checkpoint"] = renamed(checkpoint, self.row["trial_id"], trial_id)
        return found | {"reused_from": self.origin}

    def bring(self, out: Path, trial_id: str) -> None:
        """Put its models and its items into the new sweep's folder under its new id, by hard links where that works."""
        old = self.row["trial_id"]
        folders = {row["checkpoint"] for row in (self.row, *self.candidates) if row.get("checkpoint")}
        for path in [*(self.out / name for name in folders), self.out / "items" / f"{old}.json"]:
            if path.exists() and not (there := out / renamed(str(path.relative_to(self.out)), old, trial_id)).exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                with staged(there) as staging:
                    if path.is_dir():
                        shutil.copytree(path, staging, copy_function=link_or_copy, dirs_exist_ok=True)
                    else:
                        link_or_copy(path, staging)


RAN_TO_ITS_END = (Status.FINISHED, Status.DIVERGED)


def cached_trials(folders: Sequence[Path]) -> dict[str, CachedTrial]:
    """The finished and the diverged trials of these sweeps by content hash; of equal ones the last folder's, and in
    it the one that was trained.

    A failed or stopped trial says nothing of what it would have become, so it is run again.
    """
    found: dict[str, CachedTrial] = {}
    for folder in folders:
        tables = ResultTables(folder)
        logs = [by_trial(log.read()) for log in (tables.history, tables.auto_lr, tables.candidates)]
        for row in tables.trials.read():
            if row["status"] in RAN_TO_ITS_END and not (row.get("reused_from") and row["spec_hash"] in found):
                history, auto_lr, candidates = (tuple(log.get(row["trial_id"], ())) for log in logs)
                found[row["spec_hash"]] = CachedTrial(folder, row, history, auto_lr, candidates)
    return found


def renamed(path: str, old: str, new: str) -> str:
    """``checkpoints/00007-epoch-3`` of trial 00007 as that of the trial ``new``."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{new}{name.removeprefix(old)}"


def by_trial(rows: Sequence[Row], key: str = "trial_id") -> dict[str, list[Row]]:
    """The rows of a log, by the trial they are of."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _values(row: Row) -> dict[str, Any]:
    """What was measured, without whose it is."""
    return {name: plain_scalar(text) for name, text in row.items() if text and name != "trial_id"}
