"""A merged model is a trial of its own phase: a candidate, and no trial of the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import ray
from ray.exceptions import RayTaskError, WorkerCrashedError

from sweeper.driver.merging import find_merge, merge_models, missing_merges, propose_merge
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution import ray_payload
from sweeper.store.event_log import read_state
from sweeper.store.events import Merge, Phase
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import SETTINGS, bare_sweep, outcome, run_trial
from trainables.models.merging import Recipe
from trainables.run.reports import Execution, Status
from trainables.scoring.base import Measurement
from trainables.spec import TrialSpec

MERGE = Merge("negmerge", ("00000", "00001"), 1.5)


def opened(out: Path) -> OpenSweep:
    return bare_sweep(out, replace(SETTINGS, trials=2))


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    """A sweep with two finished trials and a merge without a result."""
    sweep = opened(tmp_path)
    for name in ("00000", "00001"):
        ended = outcome(checkpoint=f"checkpoints/{name}", forget_loss_capped=3.0, retain_loss=0.5)
        assert run_trial(sweep, outcome=ended) == name
    propose_merge(sweep, MERGE)
    return tmp_path


class Tasks:
    """Replaces Ray: a task makes its folder, and returns scores or raises ``error``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
        self.recipes: list[Recipe] = []
        self.error = error
        monkeypatch.setattr(ray_payload, "task_with", lambda function, settings, **options: self.submit)
        monkeypatch.setattr(ray, "wait", lambda references, timeout: (references[:1], references[1:]))
        monkeypatch.setattr(ray, "get", self.result)

    def submit(self, spec: TrialSpec, recipe: Recipe) -> str:
        self.recipes.append(recipe)
        return recipe.folder

    def result(self, folder: str) -> tuple[dict[str, float], Measurement, Execution]:
        if self.error is not None:
            raise self.error
        Path(folder).mkdir(parents=True)
        losses = {"forget_loss_capped": 6.0, "retain_loss": 0.4}
        return losses, Measurement({"verbmem": 0.1}, {}, 0.0), Execution()


def merged(out: Path, wait: Callable[[], None] = lambda: None) -> OpenSweep:
    sweep = opened(out)
    merge_models(sweep, wait)
    return sweep


def test_a_merged_model_is_a_marked_candidate_with_the_trials_that_it_comes_from(
    searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(monkeypatch)
    sweep = merged(searched)
    (recipe,) = tasks.recipes
    folders = tuple(str(searched.resolve() / "checkpoints" / name) for name in MERGE.trials)
    assert (recipe.unlearned, recipe.rule, recipe.scale) == (folders, "negmerge", 1.5)
    sweep.tables.rewrite(sweep.log.state)
    tables = ResultTables(searched)
    row = tables.trials.read()[-1]
    names = ("trial_id", "phase", "method", "merges", "merge_scale", "lr", "status", "verbmem", "checkpoint")
    values = ("merged-000", "merge", "negmerge", "00000,00001", "1.5", "", "finished", "0.1", "checkpoints/merged-000")
    assert tuple(row[name] for name in names) == values
    candidate = tables.candidates.read()[-1]
    assert (candidate["trial_id"], candidate["checkpoint"]) == ("merged-000", "checkpoints/merged-000")
    assert ("merged-000", 0.0) in {
        (name, epoch) for name, epochs in sweep.checkpoints.kept_epochs.items() for epoch in epochs
    }


def test_a_merged_model_counts_neither_for_the_search_nor_for_its_budget(
    searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = read_state(searched).trained_epochs
    Tasks(monkeypatch)
    state = merged(searched).log.state
    assert (len(state.ended_of(Phase.SEARCH)), state.trained_epochs) == (2, epochs)
    assert len(state.ended_of(Phase.MERGE)) == 1


def test_the_same_merge_is_proposed_once_and_run_once(searched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(monkeypatch)
    for _ in range(2):
        sweep = merged(searched)
        propose_merge(sweep, MERGE)
        assert len(tasks.recipes) == 1
    propose_merge(sweep, replace(MERGE, scale=1.0))
    assert [trial.id for trial in missing_merges(sweep)] == ["merged-001"]


def test_a_merge_whose_worker_was_lost_runs_again_on_resume(searched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tasks(monkeypatch, WorkerCrashedError())
    assert [trial.id for trial in missing_merges(merged(searched))] == ["merged-000"]
    tasks = Tasks(monkeypatch)
    merged(searched)
    assert len(tasks.recipes) == 1


def test_a_merge_whose_answers_do_not_fit_on_the_disk_runs_again_on_resume(
    searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tasks(monkeypatch)
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("trainables.scoring.item_log.write_item_log", full)
    assert [trial.id for trial in missing_merges(merged(searched))] == ["merged-000"]


def test_models_that_cannot_be_merged_end_the_trial_with_the_reason(
    searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RayTaskError("merge", "Traceback\nLoadError: the tensor w differs", LookupError("the tensor w differs"))
    Tasks(monkeypatch, error)
    sweep = merged(searched)
    (trial,) = sweep.log.state.ended_of(Phase.MERGE)
    assert trial.outcome is not None
    assert trial.outcome.status is Status.FAILED
    assert "the tensor w differs" in str(trial.outcome.error)
    assert find_merge(sweep.log.state, MERGE) is None, "a failed merge can be tried again"
