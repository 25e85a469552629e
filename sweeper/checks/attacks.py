"""Check the attacks on the stored models of a sweep, before any work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from search_spaces.common.messages import counted, some_of
from sweeper.checks.hub import downloads
from sweeper.checks.trial_time import TrialPace, estimate_pace
from sweeper.checks.world import source_problems
from sweeper.search.unmeasured import unattacked_epochs
from sweeper.settings.names import NO_ATTACKS
from sweeper.settings.options import AttackOptions
from sweeper.settings.reading import Problem, about, trial_values
from sweeper.settings.search import read_attacks
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from trainables.attacks.registry import ATTACKS
from trainables.metrics.registry import SETS
from trainables.spec import FIELDS
from trainables.spec_checks import trial_problems
from trainables.target.target import attack_settings, target_spec_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttacks:
    """The attacks after the search of a new sweep.

    Attributes:
        names: the names of the attacks, and of other metric sets that are measured after the search.
        left_out: the attacks of a named set that the data do not support; empty if the data are not downloaded yet.
        models: the maximum number of attacked models, besides the target.
        rate: the learning rate of the attacks that train a model; None without such an attack.
        seconds: the estimated duration, including the attacks on the target; None if it is unknown.
    """

    names: tuple[str, ...]
    left_out: tuple[str, ...]
    models: int
    rate: float | None
    seconds: float | None

    @classmethod
    def of(cls, settings: SweepSettings, pace: TrialPace | None, *, slots: int) -> PlannedAttacks | None:
        """Return the plan for a sweep that runs ``slots`` tasks at once; None if no model is attacked."""
        requested, models = settings.sets_after_search, settings.max_attacked_models
        if not requested or not models:
            return None
        names = requested
        if not any(item.kind == "dataset" for item in downloads(settings.base)):
            names = _supported_sets(settings, _measurable(settings))
        if not names:
            return None
        seconds = None
        if pace is not None:
            rounds = math.ceil(models * len(names) / slots) / len(names) + 1  # the target is attacked first
            attacks = sum(_seconds(name, pace, settings) for name in names)
            seconds = attacks * rounds + pace.loading
        left_out = tuple(name for name in requested if name not in names)
        rate = (
            attack_settings(settings.base)["relearn_lr"]
            if any(name in ATTACKS and ATTACKS[name].trains for name in names)
            else None
        )
        return cls(names=names, left_out=left_out, models=models, rate=rate, seconds=seconds)

    def format(self) -> str:
        from analysis.words import duration

        time = f"about {duration(self.seconds)} in all{_besides(self.names)}" if self.seconds else "duration unknown"
        without = f" (the data do not support {', '.join(self.left_out)})" if self.left_out else ""
        rate = "" if self.rate is None else f"; those that train a model use the learning rate {self.rate:g}"
        return (
            f"{', '.join(self.names)}{without} on the target and at most {counted(self.models, 'model')}; {time}{rate}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPlan:
    """The measurements of the command ``attack``. The fields are the keys of ``--dry-run --json``.

    Attributes:
        attacks: maps each attack to the models on which it is not measured yet, such as ``00003-epoch-2``.
        controls: the attacks that must first be measured on the target and, if the sweep has a ``--retain-model``, on
            this model.
        left_out: the attacks of a named set that the data do not support.
        measurements: the number of measurements of stored models.
        seconds: the estimated duration of the attacks; None if it is unknown.
    """

    out: str
    attacks: Mapping[str, tuple[str, ...]]
    controls: tuple[str, ...]
    left_out: tuple[str, ...]
    measurements: int
    seconds: float | None

    @classmethod
    def of(cls, settings: SweepSettings, out: Path, *, slots: int) -> AttackPlan:
        """Return the plan for the sweep in ``out``, which runs ``slots`` tasks at once.

        The settings must have no problems (:func:`attack_changes`).
        """
        from analysis.tables.sweep_file import SweepFile

        baseline = SweepFile.read(out).baseline
        measurable = _measurable(settings)
        names = _supported_sets(settings, measurable)
        controls = tuple(name for name in names if not baseline.keys() & set(SETS[name]))
        missing = unattacked_epochs(out, settings, read_state(out), measurable=measurable)
        models = {
            name: tuple(Path(item.checkpoint).name for item in missing if item.metric_set == name) for name in names
        }
        pace = estimate_pace(settings.base, [out], gpus=settings.gpus_per_trial)
        seconds = None
        pending = {*controls, *(item.metric_set for item in missing)}
        is_known = not pending or not pending.isdisjoint(ATTACKS)
        if pace is not None and is_known:
            each = [_seconds(item.metric_set, pace, settings) for item in missing]
            alone = (1 + (settings.base.retain_path is not None)) * sum(
                _seconds(name, pace, settings) for name in controls
            )
            at_once = min(slots, len(each)) or 1
            seconds = alone + max([sum(each) / at_once, *each]) + (pace.loading if pending else 0.0)
        return cls(
            out=str(out),
            attacks=models,
            controls=controls,
            left_out=tuple(name for name in settings.sets_after_search if name not in names),
            measurements=len(missing),
            seconds=seconds,
        )

    def format(self) -> list[str]:
        """Return the plan as lines of text."""
        from analysis.words import duration

        lines = [("out", self.out)]
        for name, models in self.attacks.items():
            first = ["the target"] if name in self.controls else []
            lines.append((name, some_of([*first, *models]) if first or models else "already measured on all models"))
        lines += [(name, "left out, because the data do not support this attack") for name in self.left_out]
        pending = [name for name, models in self.attacks.items() if models or name in self.controls]
        time = "unknown, because no trial recorded how long it generates answers"
        if not pending:
            time = "none: nothing is left to measure"
        elif self.seconds is not None:
            time = f"about {duration(self.seconds)}{_besides(pending)}"
        elif not ATTACKS.keys() & pending:
            time = f"unknown for {', '.join(pending)}"
        lines.append(("time", time))
        width = max(len(name) for name, _ in lines)
        return [f"{name:<{width}}  {text}" for name, text in lines]


def _measurable(settings: SweepSettings) -> set[str]:
    """Return the names of the metrics that the data support. The data must be on this machine."""
    return set(target_spec_of(settings.measured_spec(settings.seed)).metric_names())


def _supported_sets(settings: SweepSettings, measurable: set[str]) -> tuple[str, ...]:
    return tuple(name for name in settings.sets_after_search if measurable.intersection(SETS[name]))


def _besides(names: Sequence[str]) -> str:
    """Return the end of a sentence about a duration, which names the metric sets that the duration leaves out."""
    others = ", ".join(name for name in names if name not in ATTACKS)
    return f", besides {others}, whose duration is unknown" if others else ""


def _seconds(metric_set: str, pace: TrialPace, settings: SweepSettings) -> float:
    """Return the estimated seconds of an attack, or 0 for another metric set, whose duration is unknown."""
    return pace.attack_seconds(ATTACKS[metric_set], settings.base) if metric_set in ATTACKS else 0.0


def attack_changes(options: AttackOptions, out: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return the new values of the sweep's settings, by name, and the problems with the attacks.

    Raises:
        UsageError, AnalysisError: a file of the sweep cannot be read.
    """
    stored = read_settings(out)
    attacks, problems = read_attacks(options.attacks)
    texts = [text for text in (stored.attacks, options.attacks) if not problems and text != NO_ATTACKS]
    changes: dict[str, Any] = {"attacks": ",".join(dict.fromkeys(",".join(texts).split(","))) or stored.attacks}
    given = {"attack_epsilon": options.epsilon, "front_metrics": options.front_metrics}
    changes |= {name: value for name, value in given.items() if value is not None}
    if not problems and not attacks:
        problems += about("attacks", f"--attacks {options.attacks}: name at least one attack ('list attacks')")
    values = trial_values(options)
    changed = {name: value for name, value in values.items() if value != getattr(stored.base, name)}
    changes["base"] = replace(stored.base, **changed)
    for name in changed:
        flag = FIELDS[name].flag
        if measured := [attack for attack in stored.attack_names if flag in ATTACKS[attack].options.split(", ")]:
            was = getattr(stored.base, name) or "the default"
            text = f"the sweep in {out} has results of {', '.join(measured)} with {was}"
            problems += about(name, f"{flag} {changed[name]}: {text}, which would not be comparable; leave out {flag}")
    if problem := next((text for text in trial_problems(changes["base"]) if "--leak-k" in text), None):
        problems += about("leak_k", problem)
    settings = replace(stored, **changes)
    problems += settings_problems(settings)
    if not problems:
        problems += _model_problems(settings, out)
    return changes, problems


def settings_problems(settings: SweepSettings) -> list[Problem]:
    """Return the problems with the attacks of an existing sweep that follow from its settings and its data."""
    if not settings.attack_names:
        return []
    if not settings.every_epoch:
        text = "the candidates of the sweep are only the last epochs of trials, but attacks are measured on epochs"
        return about("attacks", f"--attacks: {text}; start a sweep with --candidates all")
    return about("attacks", *source_problems(settings.measured_spec(settings.seed), ask_hub=False))


def _model_problems(settings: SweepSettings, out: Path) -> Iterator[Problem]:
    """Yield a problem if there is no model to attack, or if a checkpoint no longer exists."""
    from analysis.frontier.attack_plan import models_to_attack
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable

    table, written = TrialTable.read(out), ResultTables(out).candidates
    cells = written.read() if written.path.is_file() else []
    folders = {(row["trial_id"], float(row["step"])): row["checkpoint"] for row in cells}
    models = zip(table.candidates["trial_id"], table.candidates["step"], strict=True)
    # TrialTable leaves out the folders that no longer exist.
    table = replace(table, candidates=table.candidates.assign(checkpoint=[folders[model] for model in models]))
    limit, epsilon = settings.max_attacked_models, settings.attack_epsilon
    rows = models_to_attack(table, SweepFile.read(out), limit=limit, epsilon=epsilon)
    if rows.empty:
        text = "has no stored model on or near the frontier"
        yield Problem(f"the sweep in {out} {text}; continue it with 'resume', or give a larger --epsilon")
    missing = [folder for folder in map(str, rows["checkpoint"]) if not (out / folder).is_dir()]
    if missing and settings.bucket is None:
        text = "no longer exist, so these models cannot be attacked: restore the folders, or run the sweep again"
        yield Problem(f"the checkpoints {some_of(missing)} of the sweep in {out} {text}")
