"""Attacks are checked and their duration is estimated before any work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.checks.attacks import PlannedAttacks, attack_changes
from sweeper.checks.trial_time import TrialPace
from sweeper.settings.options import AttackOptions
from sweeper.store.folder import begin
from tests.sweeper.conftest import SETTINGS
from trainables.attacks.registry import ATTACKS

PACE = TrialPace(epoch=1.0, beside=1.0, source="8 trials", generation=2.0)


def test_the_estimate_counts_the_target_and_the_attacked_models() -> None:
    settings = replace(SETTINGS, attacks="quantize", front_metrics=8)
    planned = PlannedAttacks.of(settings, PACE, slots=2)
    assert planned is not None
    assert planned.seconds == pytest.approx(2.0 * ATTACKS["quantize"].effort * (4 + 1))
    unknown = PlannedAttacks.of(settings, None, slots=2)
    assert unknown is not None
    assert unknown.seconds is None
    assert PlannedAttacks.of(replace(settings, attacks="none"), PACE, slots=2) is None


def problems_of(out: Path, **options: object) -> list[str]:
    return [problem.text for problem in attack_changes(AttackOptions(raw={}, **options), out)[1]]


def test_attacks_on_a_sweep_are_refused_before_any_work(tmp_path: Path) -> None:
    every, last = tmp_path / "every", tmp_path / "last"
    begin(replace(SETTINGS, candidates="last"), last)
    begin(replace(SETTINGS, candidates="all", attacks="quantize"), every)
    (problem,) = problems_of(last, attacks="quantize")
    assert "--candidates all" in problem
    (problem,) = problems_of(every, attacks="quantise")
    assert "did you mean 'quantize'" in problem
    (problem,) = problems_of(every, attacks="none")
    assert "at least one attack" in problem
    (problem,) = problems_of(every, attacks="sample")
    assert "no stored model" in problem
    assert attack_changes(AttackOptions(raw={}, attacks="sample"), every)[0]["attacks"] == "quantize,sample"
