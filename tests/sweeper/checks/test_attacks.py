"""Attacks are checked and their duration is estimated before any work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.checks.attacks import PlannedAttacks, attack_changes
from sweeper.checks.trial_time import TrialPace
from sweeper.settings.options import AttackOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import from_python
from sweeper.store.folder import begin
from tests.sweeper.conftest import SETTINGS
from trainables.attacks.registry import ATTACKS

PACE = TrialPace(epoch=1.0, beside=5.0, source="8 trials", generation=2.0, losses=8.0, forget_share=0.25)


def test_the_estimate_counts_the_target_and_the_attacked_models() -> None:
    settings = replace(SETTINGS, attacks="quantize", front_metrics=8)
    planned = PlannedAttacks.of(settings, PACE, slots=2)
    assert planned is not None
    assert planned.seconds == pytest.approx(2 * (2.0 + 8.0) * (4 + 1) + 5.0 - 2.0)
    by_default = PlannedAttacks.of(replace(settings, front_metrics=None), PACE, slots=2)
    assert by_default == planned, "by default, 8 models are attacked"
    unknown = PlannedAttacks.of(settings, None, slots=2)
    assert unknown is not None
    assert unknown.seconds is None
    assert PlannedAttacks.of(replace(settings, attacks="none"), PACE, slots=2) is None


def test_the_plan_leaves_out_the_attacks_that_the_data_do_not_support(tmp_path: Path) -> None:
    for name in ("forget", "retain"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{name} this text"}}\n')
    base = replace(SETTINGS.base, dataset="jsonl", data_dir=str(tmp_path))
    planned = PlannedAttacks.of(replace(SETTINGS, base=base, attacks="default"), None, slots=2)
    assert planned is not None
    assert planned.names == ("quantize",)
    assert planned.left_out == ("sample", "paraphrase", "prefix", "combine")


def test_each_attack_takes_the_time_of_the_answers_that_it_scores_and_generates() -> None:
    """A quarter of the items are in the forget set: half a second to generate its answers, two to score them."""
    spec = replace(SETTINGS.base, leak_samples=32)
    expected = {
        "quantize": 2 * (2.0 + 8.0),
        "sample": 32 * 0.5,
        "paraphrase": 2 * 2.0 + 8.0,
        "prefix": 2 * 0.5 + 2.0,
        "combine": 4 * 0.5 + 2 * 2.0,
        "barrier": 5 * 8.0,
    }
    assert {name: PACE.attack_seconds(ATTACKS[name], spec) for name in expected} == expected


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


def test_a_setting_of_a_measured_attack_cannot_change(tmp_path: Path) -> None:
    begin(replace(SETTINGS, candidates="all", attacks="benign"), tmp_path / "sweep")
    values = {"attacks": "sample", "relearn_lr": 1e-3, "leak_samples": 8, "epsilon": 0.5, "front_metrics": 3}
    options, _ = read(AttackOptions, from_python(AttackOptions, values))
    changes, problems = attack_changes(options, tmp_path / "sweep")
    assert (changes["attack_epsilon"], changes["front_metrics"], changes["base"].leak_samples) == (0.5, 3, 8)
    (problem,) = [item.text for item in problems if "comparable" in item.text]
    assert "--relearn-lr 0.001: the sweep" in problem
    assert "has results of benign" in problem
