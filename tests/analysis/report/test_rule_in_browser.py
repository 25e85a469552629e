"""The report page's script chooses the same model as Python, for the sweep's thresholds and for moved ones."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import pytest

from analysis.frontier.choice import Choice, Outcome, choose_model
from analysis.frontier.criterion import Criterion, criterion_of
from analysis.frontier.ranking import Decision
from analysis.frontier.rule import compiled_rule
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, Row, tables_of, trial
from tests.browser import CHROMIUM, browsing

TARGET = {"forget_loss": 0.04, "forget_loss_capped": 0.04, "retain_loss": 0.05, "verbmem": 0.95, "utility": 0.8} | {
    "forget_fact_recall": 1.0,
    "retain_fact_recall": 0.9,
    "retain_kl": 0.0,
    "forget_loops": 0.1,
    "retain_repetition": 0.05,
}
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"criterion": "paper"},
    {"constraints": ["retain_repetition<=0.1", "retain_loss<=1.5"]},
    {"constraints": ["forget_fact_recall<=30%", "wall_seconds<20"]},
    {"criterion": "none", "constraints": ["utility>=0.5"]},
)


def random_rows(rng: np.random.Generator) -> list[Row]:
    """Return trials with coarse scores, so that equal and missing scores are frequent, and fresh runs of some."""

    def scores(missing: float) -> dict[str, float | None]:
        # Most scores are near the thresholds.
        centres = {"verbmem": 0.1, "utility": 0.6, "forget_fact_recall": 0.15, "retain_fact_recall": 0.75}
        centres |= {"retain_kl": 0.1, "forget_loops": 0.1, "retain_repetition": 0.1}
        values = {name: round(float(np.clip(rng.normal(centre, 0.1), 0, 1)), 2) for name, centre in centres.items()}
        return {name: None if rng.random() < missing else value for name, value in values.items()}

    rows: list[Row] = []
    extra: dict[str, float | None] = {}
    for index in range(rng.integers(1, 16)):
        losses = (round(float(rng.uniform(0, 9)), 1), round(float(rng.uniform(0.05, 3)), 1))
        trial_id = f"{index:05d}"
        if extra and rng.random() < 0.3:  # a model that can hardly be told apart from the previous one
            extra |= {"retain_kl": round(float(rng.uniform(0.1, 0.12)), 3)}
        else:
            extra = scores(rng.choice([0.0, 0.1, 0.8]))
        rows.append(
            trial(trial_id, *losses, lr=float(rng.choice([1e-4, 1e-3])), wall_seconds=rng.integers(9, 25), **extra)
        )
        for run in range(rng.choice([0, 0, 1, 2])):
            fresh = trial(f"confirm-{index}-{run}", *losses, seed=run + 1, **scores(0.05))
            rows.append({**fresh, "phase": "confirm", "confirms": trial_id, "stop_epoch": 3.0})
    return rows


def moved(criterion: Criterion, bounds: list[float | None]) -> Criterion:
    """Return the criterion with absolute bounds in place of those that are not None."""
    pairs = zip(criterion.requirements, bounds, strict=True)
    requirements = [
        item if bound is None else replace(item, limit=Constraint(item.column, item.limit.sign, bound), sampled=False)
        for item, bound in pairs
    ]
    return replace(criterion, requirements=tuple(requirements))


def facts(choice: Choice) -> dict[str, Any]:
    return {
        "outcome": str(choice.outcome),
        "index": choice.index,
        "decision": choice.decision and str(choice.decision),
        "ties": sorted(choice.ties),
        "eligible": choice.eligible,
    }


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_script_chooses_as_python_does_on_random_tables(make_sweep: MakeSweep) -> None:
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for number in range(60):
        settings = {"base": {"model": "tiny-phi"}, **SETTINGS[number % len(SETTINGS)]}
        never_saw = {"forget_fact_recall": 0.1} if number % 3 == 0 else {}
        out = make_sweep(
            random_rows(rng),
            name=str(number),
            baseline=TARGET,
            never_saw=never_saw,
            items=dict.fromkeys(TARGET, 100),
            settings=settings,
        )
        table, sweep = tables_of(out)
        criterion = criterion_of(sweep, table)
        rule = compiled_rule(choose_model(table, sweep), table)
        for share in (0.0, 0.3, 1.0):
            bounds = [
                round(float(rng.uniform(0, 1)), 2) if rng.random() < share else None for _ in criterion.requirements
            ]
            cases.append([rule, bounds])
            expected.append(facts(choose_model(table, sweep, criterion=moved(criterion, bounds))))

    script = resources.files("analysis.report").joinpath("templates/rule.js").read_text("utf-8")
    with browsing() as browser:
        page = browser.open("about:blank")
        found = page.ask(
            f"(() => {{ {script}; return {json.dumps(cases)}.map(([rule, bounds]) => {{"
            " const { outcome, index, decision, ties, eligible } = decideByRule(rule, bounds);"
            " return { outcome, index, decision, ties: ties.sort((a, b) => a - b), eligible }; }); })()"
        )
    for case, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one == other, f"case {case}: thresholds {cases[case][1]}"
    # The random tables reach every outcome and every reason.
    assert {item["outcome"] for item in expected} >= {Outcome.GOOD, Outcome.MISSED, Outcome.NOT_KNOWN}
    assert {item["decision"] for item in expected} >= set(Decision)


def test_without_requirements_or_with_too_many_models_there_is_no_rule(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [trial(str(index), 3.0, 0.1) for index in range(3)]
    table, sweep = tables_of(make_sweep(rows, settings={"criterion": "none"}))
    assert compiled_rule(choose_model(table, sweep), table) is None
    table, sweep = tables_of(make_sweep(rows, name="usable"))
    choice = choose_model(table, sweep)
    assert compiled_rule(choice, table) is not None
    monkeypatch.setattr("analysis.frontier.rule.MAX_MODELS", 2)
    assert compiled_rule(choice, table) is None
