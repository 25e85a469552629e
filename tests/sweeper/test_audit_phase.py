"""Audit trials: the base model fine-tuned again with and without the forget set, beside the search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayError, RayTaskError

from analysis.tables.trial_table import TrialTable
from sweeper.checks.audit import audit_problems
from sweeper.driver.audit import audit_models, record_p_values
from sweeper.driver.finalize import _write_results
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution import ray_payload
from sweeper.search.audit import PoolModel, missing_models, pool_models
from sweeper.settings.options import AuditOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import from_python
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import column_dictionary
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase
from sweeper.store.state import Stage
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, report, running
from trainables.run.reports import Execution

MODELS = 2
BASELINE = ("forget_loss", "retain_loss")
AUDIT = replace(SETTINGS, audit=MODELS)
AXES = (("forget_loss", "forget_loss_capped", "max"), ("retain_loss", "retain_loss", "min"))


@pytest.fixture
def searched(out: Path) -> OpenSweep:
    """A sweep whose only trial has ended."""
    objectives = [
        {"name": name, "column": column, "direction": direction, "low": 0.0, "high": 8.0}
        for name, column, direction in AXES
    ]
    content = {"format": 2, "objectives": objectives, "baseline": {"forget_loss": 0.1, "retain_loss": 0.1}}
    (out / "sweep.json").write_text(json.dumps(content | {"columns": column_dictionary(random_guess=8.0)}))
    sweep = bare_sweep(out, AUDIT)
    trial_id = running(sweep)
    for step in (1, 2):
        report(sweep, trial_id, step, retain_loss=0.1)
    end_trial(sweep, trial_id)
    return sweep


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace Ray's tasks. Maps the id of a model to its loss on the forget set, or to an error."""
    results: dict[str, Any] = {}

    def task_with(function: object, inputs: object, **options: object) -> Any:
        return lambda *, spec, saw: ("saw" if saw else "never-saw", spec.target_seed)

    def get(task: tuple[str, int]) -> Any:
        result = results.get(PoolModel(*task).trial_id, 0.1 if task[0] == "saw" else 4.0)
        if isinstance(result, Exception):
            raise result
        return {"forget_loss": result + task[1] / 100, "retain_loss": 0.1}, Execution(wall_seconds=3.0)

    monkeypatch.setattr(ray_payload, "task_with", task_with)
    monkeypatch.setattr(ray, "wait", lambda tasks, timeout: (tasks[:1], tasks[1:]))
    monkeypatch.setattr(ray, "get", get)
    return results


def audit(sweep: OpenSweep) -> None:
    audit_models(sweep, lambda: None)
    record_p_values(sweep)


def test_the_models_have_new_seeds_and_the_shared_settings() -> None:
    models = pool_models(AUDIT)
    assert [model.trial_id for model in models] == ["never-saw-001", "never-saw-002", "saw-001", "saw-002"]
    spec = models[0].spec(AUDIT)
    assert (spec.target_seed, spec.model, spec.dataset) == (1, SETTINGS.base.model, SETTINGS.base.dataset)
    varied = replace(AUDIT, seeds=3, seeds_vary="target")
    assert {model.seed for model in pool_models(varied)} == {3, 4}, "the seeds of the targets are 0, 1 and 2"


def test_the_models_are_attacked_like_those_of_the_sweep() -> None:
    attacked = replace(AUDIT, attacks="quantize")
    assert all("quantize" in model.spec(attacked).metrics for model in pool_models(attacked))


def test_an_audit_is_recorded_and_the_search_does_not_count_it(
    searched: OpenSweep, out: Path, tasks: dict[str, Any]
) -> None:
    state = searched.log.state
    before = (state.trained_epochs, searched.remaining_trials, state.outcomes)
    audit(searched)
    assert (state.trained_epochs, searched.remaining_trials, state.outcomes) == before
    assert [trial.id for trial in state.ended_of(Phase.AUDIT)] == [model.trial_id for model in pool_models(AUDIT)]
    searched.log.flush()
    searched.tables.rewrite(state)
    table = TrialTable.read(out)
    assert table.audited["method"].tolist() == ["never-saw"] * 2 + ["saw"] * 2
    assert table.trials["trial_id"].tolist() == ["00000"]


def test_the_p_values_are_columns_of_the_candidates_and_audit_json_has_the_meta_evaluation(
    searched: OpenSweep, out: Path, tasks: dict[str, Any]
) -> None:
    audit(searched)
    _write_results(searched, with_verdict=False)
    models = TrialTable.read(out).models.trials
    assert models["ignorance_p"].tolist() == pytest.approx([1 / 3, 1 / 3]), "two models allow no smaller p-value"
    content = json.loads((out / "audit.json").read_text())
    assert (content["never_saw"], content["saw"], content["failed"]) == (2, 2, 0)
    separations = {item["metric"]: item["faithfulness"]["value"] for item in content["metrics"]}
    assert separations == {"forget_loss": 1.0, "retain_loss": 0.5}
    assert [model["as_never_seen"] for model in content["models"]] == [None, None], "two models are too few to decide"
    rows = (out / "audit.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["pool", *["never-saw"] * 2, *["saw"] * 2, *["candidate"] * 2]
    assert "As if never seen?" in (out / "report.html").read_text()


def test_each_p_value_compares_a_model_with_its_pool_and_is_recorded_once(
    searched: OpenSweep, out: Path, tasks: dict[str, Any]
) -> None:
    tasks |= {"never-saw-001": 0.3, "never-saw-002": 0.6}  # on both sides of the model after the first epoch
    audit(searched)
    values = searched.log.state.trials["00000"].measured[1]
    assert values["ignorance_p"] > values["knowledge_p"] == pytest.approx(1 / 3)
    searched.log.flush()
    events = (out / "events.jsonl").read_text()
    record_p_values(searched)
    searched.log.flush()
    assert (out / "events.jsonl").read_text() == events


def test_no_more_models_are_trained_at_once_than_trials(
    searched: OpenSweep, out: Path, tasks: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []

    def wait(tasks: list[object], timeout: float) -> tuple[list[object], list[object]]:
        started = [trial for trial in sweep.log.state.trials_of(Phase.AUDIT) if trial.stage is Stage.RUNNING]
        assert len(started) == len(tasks), "a model that waits does not count as running"
        at_once.append(len(tasks))
        return tasks[:1], tasks[1:]

    monkeypatch.setattr(ray, "wait", wait)
    for limit, expected in ((None, [4, 3, 2, 1]), (1, [1, 1])):
        sweep = bare_sweep(out, replace(AUDIT, max_concurrent=limit, audit=2 if limit is None else 3))
        at_once.clear()
        audit_models(sweep, lambda: None)
        assert at_once == expected


def test_an_unfinished_audit_has_no_p_values(out: Path, searched: OpenSweep, tasks: dict[str, Any]) -> None:
    larger = bare_sweep(out, replace(AUDIT, audit=3))
    tasks["saw-001"] = RayError("the worker died")
    audit(larger)
    assert larger.log.state.trials["00000"].measured == {}


def test_a_resumed_audit_runs_only_the_models_without_a_result(
    searched: OpenSweep, out: Path, tasks: dict[str, Any]
) -> None:
    tasks["saw-001"] = RayError("the worker died")
    audit(searched)
    assert [model.trial_id for model in missing_models(AUDIT, read_state(out), BASELINE)] == ["saw-001"]
    del tasks["saw-001"]
    tasks["saw-002"] = AssertionError("saw-002 has a result")
    resumed = bare_sweep(out, AUDIT)
    audit(resumed)
    assert missing_models(AUDIT, resumed.log.state, BASELINE) == []


def test_a_model_that_cannot_be_fine_tuned_has_failed_and_the_audit_continues(
    searched: OpenSweep, tasks: dict[str, Any]
) -> None:
    tasks["never-saw-001"] = RayTaskError("function", "traceback\nTargetError: the loss became nan", ValueError())
    audit(searched)
    outcome = searched.log.state.trials["never-saw-001"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.error) == ("failed", "TargetError: the loss became nan")
    assert missing_models(AUDIT, searched.log.state, BASELINE) == []


def test_a_larger_audit_trains_only_the_further_models(searched: OpenSweep, tasks: dict[str, Any]) -> None:
    audit(searched)
    more = [model.trial_id for model in missing_models(replace(AUDIT, audit=3), searched.log.state, BASELINE)]
    assert more == ["never-saw-003", "saw-003"]


def test_an_audit_is_complete_without_the_attacks_that_the_data_cannot_give(
    searched: OpenSweep, tasks: dict[str, Any]
) -> None:
    audit(searched)
    attacked = replace(AUDIT, attacks="default")
    assert missing_models(attacked, searched.log.state, BASELINE) == []
    assert missing_models(attacked, searched.log.state, (*BASELINE, "fact_recall_after_nf4")) == pool_models(AUDIT)
    assert missing_models(attacked, searched.log.state, (*BASELINE, "forget_loss_barrier")) == [], "needs a target"


def test_an_audited_model_without_a_result_because_of_a_full_disk_runs_again(
    searched: OpenSweep, out: Path, tasks: dict[str, Any]
) -> None:
    error = "OSError: [Errno 28] No space left on device\nTargetError: the target cannot be saved"
    tasks["saw-001"] = RayTaskError("function", error, ValueError())
    audit(searched)
    assert [trial.id for trial in read_state(out).ended_trials if not trial.has_result] == ["saw-001"]


# Bad input ------------------------------------------------------------------------------------------------------------


def problems(out: Path, settings: SweepSettings = AUDIT, models: int | None = 2) -> list[str]:
    return [problem.text for problem in audit_problems(AuditOptions(raw={}, models=models), settings, out)]


def test_an_audit_needs_a_budget(searched: OpenSweep, out: Path) -> None:
    (message,) = problems(out, models=None)
    assert "--models N" in message
    assert "at least 19" in message
    assert problems(out) == []
    invalid = read(AuditOptions, from_python(AuditOptions, {"models": 1}))[0]
    assert not list(audit_problems(invalid, AUDIT, out)), "the value itself is the only problem"


def test_a_target_without_a_base_model_cannot_be_audited(searched: OpenSweep, out: Path) -> None:
    settings = replace(AUDIT, base=replace(AUDIT.base, target_path=str(out)))
    assert any("--target-path" in message for message in problems(out, settings))


def test_trials_that_forget_different_data_have_no_common_pool(searched: OpenSweep, out: Path) -> None:
    assert any("--seeds-vary data" in text for text in problems(out, replace(AUDIT, seeds=2, seeds_vary="data")))


def test_a_sweep_without_an_ended_trial_has_nothing_to_audit(out: Path) -> None:
    bare_sweep(out, AUDIT).log.flush()
    assert any("no ended trial" in message for message in problems(out))


def test_a_model_whose_metrics_can_no_longer_be_measured_is_named(searched: OpenSweep, out: Path) -> None:
    searched.log.flush()
    path = out / "candidates.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, rows[0].rsplit(",", 1)[0] + ",checkpoints/gone", *rows[1:]]) + "\n")
    (message,) = problems(out)
    assert "checkpoints/gone" in message
