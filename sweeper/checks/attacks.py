"""Check the attacks on the stored models of a sweep, before any work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from search_spaces.common.messages import counted, some_of
from sweeper.checks.trial_time import TrialPace
from sweeper.checks.world import source_problems
from sweeper.settings.names import NO_ATTACKS
from sweeper.settings.options import AttackOptions
from sweeper.settings.reading import Problem, about, trial_values
from sweeper.settings.search import read_attacks
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from trainables.attacks.registry import ATTACKS
from trainables.spec import FIELDS
from trainables.spec_checks import trial_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttacks:
    """The attacks after the search of a new sweep.

    Attributes:
        names: the names of the attacks.
        models: the maximum number of attacked models, besides the target.
        seconds: the estimated duration, including the attacks on the target; None if it is unknown.
    """

    names: tuple[str, ...]
    models: int
    seconds: float | None

    @classmethod
    def of(cls, settings: SweepSettings, pace: TrialPace | None, *, slots: int) -> PlannedAttacks | None:
        """Return the plan for a sweep that runs ``slots`` tasks at once; None if no model is attacked."""
        names, models = settings.attack_names, settings.max_attacked_models
        if not names or not models:
            return None
        seconds = None
        if pace is not None and pace.generation:
            rounds = math.ceil(models * len(names) / slots) / len(names) + 1  # the target is attacked first
            seconds = pace.generation * sum(ATTACKS[name].effort for name in names) * rounds
        return cls(names=names, models=models, seconds=seconds)

    def format(self) -> str:
        from analysis.words import duration

        time = f"about {duration(self.seconds)} in all" if self.seconds else "duration unknown"
        return f"{', '.join(self.names)} on the target and at most {counted(self.models, 'model')}; {time}"


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
