"""Estimate the duration of a trial from similar trials of previous sweeps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.tables.sweep_file import SweepFile
from search_spaces.common.messages import counted
from search_spaces.common.values import as_float
from sweeper.store.events import Phase
from sweeper.store.folder import SweepError, read_settings
from sweeper.store.tables import ResultTables
from trainables.attacks.attack import Attack
from trainables.run.reports import Status
from trainables.spec import FIELDS, TrialSpec

_ROLES = ("data", "placement", "training", "scoring")
_IGNORED_FIELDS = ("lr", "seed", "epochs", "data_seed", "target_seed")
"""The fields in which similar trials may differ, because the fields have little effect on the duration of an epoch."""
_FEWEST_REPORTS = 2
"""From the reports of a trial with fewer reports, an evaluation of losses cannot be told from that of metrics."""
_FURTHER_ANSWERS = ("forget_fact_recall_rephrased", "retain_fact_recall_rephrased", "neighbour_fact_recall")
"""Metrics of questions that are asked in addition to those of the two sets."""


@dataclass(frozen=True, slots=True)
class TrialPace:
    """The duration of a trial, estimated from the finished trials of a previous sweep.

    Attributes:
        epoch: the seconds per epoch.
        beside: the seconds that do not depend on the number of epochs: loading, final metrics and saving.
        generation: the seconds for generating the answers of all evaluations of a trial.
        answers: the answers that a trial generated, per item of the two sets.
        losses: the seconds of an evaluation of the losses only.
        forget_share: the share of the forget set's items among all evaluated items.
        source: the number of these trials and their sweep, such as ``8 trials of runs/small``.
    """

    epoch: float
    beside: float
    source: str
    generation: float = 0.0
    answers: float = 1.0
    losses: float = 0.0
    forget_share: float = 0.5

    def attack_seconds(self, attack: Attack, spec: TrialSpec) -> float:
        """Return the estimated seconds of an attack on a model that is loaded.

        Scoring and generating an answer are assumed to take as long as in the evaluations of the trials.
        """
        effort = attack.effort
        sides = ((effort.forget_losses, effort.forget_answers), (effort.retain_losses, effort.retain_answers))
        shares = (self.forget_share, 1.0 - self.forget_share)
        per_model = sum(
            share * (scored * self.losses + generated * self.generation / self.answers)
            for share, (scored, generated) in zip(shares, sides, strict=True)
        )
        return per_model * (spec.leak_samples if effort.per_sample else 1)

    @property
    def loading(self) -> float:
        """The seconds until a worker has loaded the data and a first model."""
        return max(0.0, self.beside - self.generation)

    def trial_seconds(self, epochs: float) -> float:
        """Return the estimated seconds of a trial with this number of epochs."""
        return self.beside + epochs * self.epoch


def estimate_pace(spec: TrialSpec, folders: Iterable[Path], *, gpus: float | str) -> TrialPace | None:
    """Return the median times of the first similar sweep's finished trials; None if no sweep in ``folders`` is similar.

    A sweep is similar if its trials use ``gpus`` GPUs and agree with ``spec`` in all fields that affect the duration.
    """
    compared_fields = [name for name, item in FIELDS.items() if item.role in _ROLES and name not in _IGNORED_FIELDS]
    for folder in folders:
        try:
            settings = read_settings(folder)
            tables = ResultTables(folder)
            rows, reports = tables.trials.read(), tables.history.read()
        except (SweepError, OSError, ValueError):
            continue
        is_similar = all(getattr(settings.base, name) == getattr(spec, name) for name in compared_fields)
        if not is_similar or settings.gpus_per_trial != gpus:
            continue
        trials = [row for row in rows if _has_times(row)]
        if not trials:
            continue
        histories: dict[str, list[float]] = {}
        for report in reports:
            histories.setdefault(report["trial_id"], []).append(as_float(report["seconds"]))
        counts = SweepFile.read(folder).items
        forget, retain = (counts.get(name, 1.0) for name in ("forget_loss", "retain_loss"))
        further = sum(counts.get(name, 0.0) for name in _FURTHER_ANSWERS)
        evaluations = statistics.median(_evaluations(row, settings.base.metrics_every) for row in trials)
        return TrialPace(
            epoch=statistics.median(_epoch_seconds(row) / as_float(row["epochs_done"]) for row in trials),
            beside=statistics.median(max(0.0, as_float(row["wall_seconds"]) - _epoch_seconds(row)) for row in trials),
            source=f"{counted(len(trials), 'trial')} of {folder}",
            generation=statistics.median(_seconds(row, "generation") for row in trials),
            answers=evaluations * (1.0 + further / (forget + retain)),
            losses=statistics.median(_losses_seconds(row, histories.get(row["trial_id"], [])) for row in trials),
            forget_share=forget / (forget + retain),
        )
    return None


def _has_times(row: Mapping[str, str]) -> bool:
    """Return whether a trial of the search ran in its own sweep, has finished, and trained for at least one epoch."""
    is_own = not row.get("reused_from") and (row.get("phase") or Phase.SEARCH) == Phase.SEARCH
    return is_own and row["status"] == Status.FINISHED and as_float(row.get("epochs_done")) > 0


def _evaluations(row: Mapping[str, str], every: int | None) -> int:
    """Return how often a trial generated answers: after every ``every`` epochs, and at its end."""
    return max(1, math.ceil(as_float(row["epochs_done"]) / every)) if every else 1


def _epoch_seconds(row: Mapping[str, str]) -> float:
    """Return the seconds that a trial spent on training and evaluation, except for the generation of answers."""
    return _seconds(row, "train") + max(0.0, _seconds(row, "eval") - _seconds(row, "generation"))


def _losses_seconds(row: Mapping[str, str], history: Sequence[float]) -> float:
    """Return the seconds of an evaluation of the losses.

    ``history`` has the seconds of training and evaluation until each report of a trial. The last evaluation, which also
    measures metrics, counts only if there is no other one.
    """
    if len(history) < _FEWEST_REPORTS:
        return max(0.0, _seconds(row, "eval") - _seconds(row, "generation"))
    count = len(history) - 1
    return max(0.0, history[-2] / count - _seconds(row, "train") / len(history))


def _seconds(row: Mapping[str, str], name: str) -> float:
    """Return a duration in a row of trials.csv; 0 if it is unknown."""
    value = as_float(row.get(f"{name}_seconds"))
    return value if math.isfinite(value) else 0.0
