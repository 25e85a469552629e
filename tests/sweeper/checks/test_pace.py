"""The duration of a trial is estimated from similar previous sweeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.checks.trial_time import estimate_pace
from sweeper.store.folder import begin
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import SETTINGS
from trainables.attacks.registry import ATTACKS
from trainables.spec import TrialSpec

SPEC = TrialSpec(epochs=10)


def sweep(folder: Path, rows: Sequence[dict[str, object]], *, spec: TrialSpec = SPEC) -> Path:
    begin(replace(SETTINGS, base=spec), folder)
    ResultTables(folder).trials.append({"trial_id": f"{n:05}", "epochs": 10} | row for n, row in enumerate(rows))
    return folder


def trial(status: str, epochs: float, **seconds: float) -> dict[str, object]:
    times = {"train_seconds": 0.0, "eval_seconds": 0.0, "generation_seconds": 0.0, **seconds}
    return {"status": status, "epochs_done": epochs, **times}


DONE = trial("finished", 10.0, train_seconds=20.0, eval_seconds=13.0, generation_seconds=3.0, wall_seconds=40.0)


def test_sweeps_that_are_not_similar_are_ignored(tmp_path: Path) -> None:
    folders = [
        sweep(tmp_path / "other-model", [DONE], spec=replace(SPEC, model="tiny-gpt2")),
        sweep(tmp_path / "other-batch", [DONE], spec=replace(SPEC, batch_size=2)),
        sweep(tmp_path / "nothing-finished", [trial("failed", 0.0)]),
        sweep(tmp_path / "only-reused", [DONE | {"reused_from": "b/00000"}]),
        sweep(tmp_path / "only-audited", [DONE | {"phase": "audit"}]),
        sweep(tmp_path / "only-confirmed", [DONE | {"phase": "confirm"}]),
        tmp_path / "nowhere",
    ]
    assert estimate_pace(SPEC, folders, gpus=0.0) is None
    assert estimate_pace(SPEC, [sweep(tmp_path / "on-a-gpu", [DONE])], gpus=1.0) is None
    like = sweep(tmp_path / "like", [DONE], spec=replace(SPEC, lr=1.0, epochs=3, seed=7))
    assert estimate_pace(SPEC, [*folders, like], gpus=0.0) is not None


def test_an_evaluation_of_losses_takes_the_time_between_reports_without_training(tmp_path: Path) -> None:
    """Two seconds of training and 0.7 of losses in each of ten epochs, and six more at the end for metrics."""
    folder = sweep(tmp_path / "like", [DONE])
    reports = [{"trial_id": "00000", "step": n, "seconds": 2.7 * n + 6.0 * (n == 10)} for n in range(1, 11)]
    ResultTables(folder).history.append(reports)
    pace = estimate_pace(SPEC, [folder], gpus=0.0)
    assert pace is not None
    assert pace.losses == pytest.approx(0.7)
    assert pace.generation == 3.0
    assert pace.loading == pytest.approx(40.0 - 20.0 - 13.0)


def test_an_attack_takes_no_time_for_answers_in_other_words_or_of_earlier_evaluations(tmp_path: Path) -> None:
    """Each of four evaluations generated 160 answers in 0.75 seconds, 80 of them to questions in other words."""
    spec = replace(SPEC, metrics_every=3)
    folder = sweep(tmp_path / "like", [DONE], spec=spec)
    counts = {"forget_loss": 20, "retain_loss": 60}
    counts |= {"forget_fact_recall_rephrased": 20, "retain_fact_recall_rephrased": 60}
    content = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(content | {"items": counts}))
    pace = estimate_pace(spec, [folder], gpus=0.0)
    assert pace is not None
    assert pace.answers == 8.0
    sample = pace.attack_seconds(ATTACKS["sample"], replace(spec, leak_samples=16))
    assert sample == pytest.approx(16 * 0.25 * 3.0 / 8.0)
