"""Any value of any kind in a space file, for any name."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from sweeper.settings.spaces import file_space
from sweeper.settings.sweep_settings import SweepSettings
from trainables.methods import OPTIONS, option_names
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems

YAML = """
words | '0.5' | 0.5 | 7 | 0 | -3 | 1e999 | on | null | | 2025-01-01 | [words, 0.5, 7, true, null] | [[1, 2], 3] | []
| {a: 1} | {low: 1, high: 2} | {low: words, high: more} | {low: 2, high: 1} | {low: 1} | {values: }
| {low: 0.1, high: 0.9, log_to_one: true} | {values: [1, 2], when: {nothing: 1}} | {values: [1, 2], when: {lr: 1}}
| !!binary aGk= | !!python/object:os.system {}
"""


@pytest.mark.parametrize("key", [*FIELDS, *OPTIONS, *option_names(), "options", "unknown"])
def test_whatever_a_space_file_says_is_run_or_refused_with_its_line(key: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    method = "" if key == "method" else "method: [gdiff, npo]\n"
    for value in map(str.strip, YAML.split("|")):
        path.write_text(f"{method}{key}: {value}\n")
        space, problems = file_space(path, TrialSpec())
        for problem in problems:
            assert problem.startswith((f"{path}:1: ", f"{path}:2: ")), (value, problem)
        if not problems:
            settings = SweepSettings(name="s", base=TrialSpec(), space=space, trials=2)
            trials = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            for _ in range(2):
                assert trial_problems(settings.make_spec(space.suggest(trials.ask()), target_key="k")) == [], value
