"""Read sweep.json, which has the settings of a sweep and the scores of the target model before unlearning."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from search_spaces.common.messages import no_sweep
from search_spaces.common.objective import Objective

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFile:
    """The part of sweep.json that figures and reports use. Sources without a sweep.json also have a ``SweepFile``.

    Attributes:
        objectives: the objectives; empty until the sweep has its target model.
        random_guess_loss: ln|V| in nats per token; None until the sweep has its target model.
        baseline: the metrics of the target before unlearning, averaged if each seed has its own target.
        baselines: the metrics of each seed's target; empty if all seeds have one target.
        never_saw: the metrics of a model that never saw the forget set; empty if there is no such model.
        items: the number of questions or images of each metric.
        files: the ``SweepFile`` of each sweep that was merged, keyed by the sweep's name in the column ``sweep``.
    """

    name: str
    columns: Columns
    created: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    random_guess_loss: float | None = None
    baseline: Mapping[str, float] = field(default_factory=dict)
    baselines: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    never_saw: Mapping[str, float] = field(default_factory=dict)
    items: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, SweepFile] = field(default_factory=dict)

    @classmethod
    def read(cls, out: Path) -> SweepFile:
        """Read the file sweep.json in the folder of a sweep.

        Raises:
            AnalysisError: the file is missing, is not JSON, has a different format version, or has an invalid entry.
        """
        path = out / "sweep.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise AnalysisError(no_sweep(out)) from None
        except ValueError as error:
            raise AnalysisError(f"{path} is not valid JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            actual = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise AnalysisError(
                f"{path} has format {actual}, expected {FORMAT}: another version of this program wrote the file"
            )
        try:
            return cls(
                name=str(content.get("name") or out.name),
                columns=Columns.from_dict(content.get("columns") or {}),
                created=str(content.get("created") or ""),
                command=str(content.get("command") or ""),
                versions={str(name): str(version) for name, version in (content.get("versions") or {}).items()},
                commit=str(content.get("commit") or ""),
                settings=dict(content.get("settings") or {}),
                objectives=tuple(Objective.from_dict(item) for item in content.get("objectives") or ()),
                random_guess_loss=_finite(content.get("random_guess_loss")),
                baseline=_numbers(content.get("baseline") or {}),
                baselines={int(seed): _numbers(metrics) for seed, metrics in (content.get("baselines") or {}).items()},
                never_saw=_numbers(content.get("never_saw") or {}),
                items=_numbers(content.get("items") or {}),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise AnalysisError(f"{path} is damaged: {type(error).__name__}: {error}") from None

    @property
    def planned_trials(self) -> int | None:
        """The number of trials that the sweep plans to run; None if unknown."""
        trials = self.settings.get("trials")
        return trials if isinstance(trials, int) else None

    @property
    def constraints(self) -> tuple[str, ...]:
        """The thresholds that the user stated, such as ``utility>=70%``."""
        return tuple(map(str, self.settings.get("constraints") or ()))

    @property
    def criterion(self) -> str:
        """The criterion of a good model: ``usable``, ``paper`` or ``none``. A learning-rate study uses the paper's."""
        is_study = self.settings.get("kind") == "lr-study"
        return "paper" if is_study else str(self.settings.get("criterion") or "usable")

    @property
    def seeds_vary(self) -> str:
        """What the seed of a trial changes: ``order`` (of examples), ``target`` or ``data``; "" if sweeps differ."""
        if not self.files:
            return str(self.settings.get("seeds_vary") or "order")
        values = {file.seeds_vary for file in self.files.values()}
        return values.pop() if len(values) == 1 else ""

    def baseline_of(self, trial: pd.Series | Mapping[str, Any]) -> Mapping[str, float]:
        """Return the metrics of the target model from which a trial started.

        If each seed has its own target, the target of the trial's seed is used. If the trial's sweep has not measured
        its target, but another merged sweep has, the result is empty. For a row that belongs to no sweep, the result is
        the shared baseline.
        """
        measured = any(file.baseline for file in self.files.values())
        # A sweep without a measured target must not use the target of another sweep.
        file = self.files.get(str(trial.get("sweep")), self) if measured else self
        seed = trial.get("seed")
        seed_number = int(seed) if isinstance(seed, (int, float, np.number)) and math.isfinite(seed) else None
        return file.baseline if seed_number is None else file.baselines.get(seed_number, file.baseline)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: number for name, value in values.items() if (number := _finite(value)) is not None}


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)
