"""Metrics are measured once, for epochs on the frontier near the ideal corner that have a checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import ray
from ray.exceptions import RayError

from analysis.report.answers import MAX_MODELS
from sweeper.checks.attacks import AttackPlan, _model_problems
from sweeper.checks.trial_time import TrialPace
from sweeper.driver.frontier_metrics import measure_frontier
from sweeper.driver.open_sweep import OpenSweep
from sweeper.execution import ray_payload
from sweeper.followers.tables import TableWriter
from sweeper.search.unmeasured import unattacked_epochs, unmeasured_epochs, unmeasured_models
from sweeper.store.columns import column_dictionary
from sweeper.store.event_log import read_state
from sweeper.store.events import MetricsMeasured
from sweeper.store.state import SweepState
from sweeper.store.tables import ResultTables
from tests.facts import assert_names
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, outcome, report, running
from trainables.attacks.registry import ATTACKS
from trainables.scoring.base import Measurement
from trainables.spec import TrialSpec
from trainables.worker.process import measure_checkpoint

GUESS = 8.0
PACE = TrialPace(epoch=1.0, beside=5.0, source="8 trials", generation=2.0, losses=8.0, forget_share=0.25)
AXES = (("forget_loss", "forget_loss_capped", "max"), ("retain_loss", "retain_loss", "min"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A sweep with a stopped trial of four epochs. The third is dominated, the second has no checkpoint."""
    objectives = [
        {"name": name, "column": column, "direction": direction, "low": 0.0, "high": GUESS}
        for name, column, direction in AXES
    ]
    content = {"format": 2, "objectives": objectives, "baseline": {"verbmem": 0.9, "retain_loss": 0.1}}
    columns = column_dictionary(random_guess=GUESS)
    (tmp_path / "sweep.json").write_text(json.dumps(content | {"columns": columns}))
    sweep = opened(tmp_path)
    assert running(sweep) == "00000"
    for epoch, (forget, retain) in enumerate([(1.0, 0.5), (4.0, 0.6), (3.0, 5.0), (6.0, 4.0)], start=1):
        if epoch != 2:
            (tmp_path / f"checkpoints/00000-epoch-{epoch}").mkdir(parents=True)
        report(sweep, "00000", 10 * epoch, epoch=float(epoch), forget_loss_capped=forget, retain_loss=retain)
    end_trial(sweep, "00000", outcome("stopped", steps=40))
    return tmp_path


def opened(out: Path) -> OpenSweep:
    return bare_sweep(out, replace(SETTINGS, trials=1))


def missing(out: Path, *, most: int = 8, metrics: tuple[str, ...] = ()) -> list[int]:
    settings = replace(SETTINGS, front_metrics=most, base=replace(SETTINGS.base, metrics=metrics))
    return [item.step for item in unmeasured_epochs(out, settings, read_state(out))]


def test_the_nearest_epochs_with_a_checkpoint_and_without_a_requested_metric_come_first(out: Path) -> None:
    # The order by distance is 2, 4, 1, and epoch 2 has no checkpoint.
    assert [missing(out, most=most) for most in (8, 2, 1, 0)] == [[40, 10], [40], [], []]
    assert missing(out, metrics=("verbmem",)) == [40, 10]
    assert missing(out, metrics=("retain_loss",)) == [], "every epoch has its losses"
    content = json.loads((out / "sweep.json").read_text())
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": {"retain_loss": 0.1}}))
    assert missing(out) == [], "no metric to measure"


def test_the_best_epoch_within_the_constraints_is_measured_although_it_is_not_on_the_frontier(out: Path) -> None:
    content = json.loads((out / "sweep.json").read_text())
    (out / "sweep.json").write_text(json.dumps(content | {"settings": {"constraints": ["forget_loss_capped<=3.5"]}}))
    candidates = pd.read_csv(out / "candidates.csv", dtype=str)
    candidates.loc[candidates["epoch"] == "3.0", "checkpoint"] = "checkpoints/00000-epoch-3"
    candidates.to_csv(out / "candidates.csv", index=False)
    (out / "checkpoints/00000-epoch-3").mkdir()
    assert sorted(missing(out)) == [10, 30, 40], "epoch 3 is beaten by epochs that violate the constraint only"
    # The order by distance is 2, 4, 1, 3, but only epochs 1 and 3 meet the constraint.
    assert [missing(out, most=most) for most in (1, 2)] == [[10], [10, 30]]


def test_by_default_as_many_epochs_are_measured_as_the_report_page_has_answers_of() -> None:
    assert (SETTINGS.max_measured_epochs, SETTINGS.max_attacked_models) == (MAX_MODELS, 8)
    given = replace(SETTINGS, front_metrics=3)
    assert (given.max_measured_epochs, given.max_attacked_models) == (3, 3)


def test_an_epoch_whose_only_metrics_came_with_the_losses_is_not_measured_yet(out: Path) -> None:
    content = json.loads((out / "sweep.json").read_text())
    baseline = content["baseline"] | {"extraction_strength": 0.9}
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": baseline}))
    sweep = opened(out)
    for step in (10, 40):
        sweep.log.record(MetricsMeasured("00000", step, {"extraction_strength": 0.5}))
    requested = ("verbmem", "extraction_strength")
    assert missing(out, metrics=requested) == [40, 10]
    assert missing(out, metrics=("extraction_strength",)) == []
    sweep.log.record(MetricsMeasured("00000", 40, {"verbmem": 0.3}))
    assert missing(out, metrics=requested) == [10]


class SequentialTasks:
    """Replaces Ray: a task runs when its result is requested. ``fails`` maps checkpoints to errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: dict[str, BaseException]) -> None:
        self.submitted: list[str] = []
        self.targets: list[object] = []
        self.fails = fails
        monkeypatch.setattr(ray_payload, "task_with", self.task_with)
        monkeypatch.setattr(ray, "wait", lambda references, timeout: (references[:1], references[1:]))
        monkeypatch.setattr(ray, "get", self.score)

    def task_with(self, function: object, settings: Mapping[str, object], **options: float) -> Callable[..., Path]:
        assert function is measure_checkpoint
        assert settings.keys() == {"target", "cpus", "gpus", "storage"}
        assert options == {"max_retries": 1, "num_cpus": 1.0, "num_gpus": 0.0}
        self.targets.append(settings["target"])
        return self.submit

    def submit(self, folder: Path, spec: TrialSpec) -> Path:
        assert folder.is_dir()
        self.submitted.append("-".join([folder.name, *(name for name in spec.metrics if name in ATTACKS)]))
        return Path(self.submitted[-1])

    def score(self, task: Path) -> Measurement:
        if error := self.fails.get(task.name):
            raise error
        if task.name.endswith("quantize"):
            return Measurement({"fact_recall_after_nf4": 0.25}, {"eval_log.json": {"rougeL_recall": {"0": 0.0}}}, 0.0)
        return Measurement({"verbmem": 0.5}, {"eval_log.json": {"rougeL_recall": {"0": 0.5}}}, 0.0)


def test_a_model_is_compared_with_the_target_of_its_own_trial(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = SequentialTasks(monkeypatch, {})
    sweep = opened(out)
    own = sweep.target
    targets = {1: replace(own, key="the target of another seed"), 0: own}
    measure_frontier(replace(sweep, targets=targets), lambda: None)
    assert tasks.targets == [own]


def measure(out: Path, *, wait_for_head: Callable[[], None] = lambda: None) -> None:
    measure_frontier(opened(out), wait_for_head)


def test_results_before_ctrl_c_are_kept_and_the_next_run_measures_the_other_epochs(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SequentialTasks(monkeypatch, {"00000-epoch-1": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        measure(out)
    second = SequentialTasks(monkeypatch, {})
    for _ in range(2):
        measure(out)
        assert second.submitted == ["00000-epoch-1"]
    assert {path.stem for path in (out / "items").iterdir()} == {"00000-epoch-1", "00000-epoch-4"}
    assert [row["verbmem"] for row in ResultTables(out).candidates.read()] == ["0.5", "", "", "0.5"]


def test_without_rays_head_no_task_is_submitted(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task without a head would end this process without a message."""
    tasks = SequentialTasks(monkeypatch, {})
    with pytest.raises(KeyboardInterrupt):
        measure(out, wait_for_head=Mock(side_effect=KeyboardInterrupt))
    assert tasks.submitted == []


def test_a_checkpoint_that_cannot_be_scored_is_logged_and_tried_again(
    out: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    SequentialTasks(monkeypatch, {"00000-epoch-4": RayError("Traceback\nLoadError: cannot load the model")})
    measure(out)
    assert_names(caplog.text, "checkpoints/00000-epoch-4", "LoadError: cannot load the model")
    assert missing(out) == [40]


def test_a_model_that_an_attack_destroys_is_named_and_attacked_once(
    out: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    content = json.loads((out / "sweep.json").read_text())
    baseline = content["baseline"] | {"fact_recall_after_nf4": 0.9}
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": baseline}))
    tasks = SequentialTasks(monkeypatch, {})

    def destroyed(task: Path) -> Measurement:
        return Measurement(dict.fromkeys(tasks.score(task).metrics, math.nan), {}, 0.0)

    monkeypatch.setattr(ray, "get", destroyed)
    settings = replace(SETTINGS, trials=1, attacks="quantize", attack_epsilon=0.0)
    for _ in range(2):
        measure_frontier(bare_sweep(out, settings), lambda: None)
        assert len(tasks.submitted) == 4
    assert unmeasured_models(out, settings, read_state(out)) == []
    assert_names(caplog.text, "no value of the metrics on checkpoints/00000-epoch-4", "not finite")


def test_stored_models_near_the_frontier_are_attacked_once_after_their_metrics_are_known(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((out / "sweep.json").read_text())
    baseline = content["baseline"] | {"fact_recall_after_nf4": 0.9}
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": baseline}))
    tasks = SequentialTasks(monkeypatch, {})
    settings = replace(SETTINGS, trials=1, attacks="quantize", attack_epsilon=0.0)
    assert [item.metric_set for item in unattacked_epochs(out, settings, read_state(out))] == ["quantize", "quantize"]
    assert len(unattacked_epochs(out, replace(settings, front_metrics=1), read_state(out))) == 1
    for _ in range(2):
        measure_frontier(bare_sweep(out, settings), lambda: None)
        assert tasks.submitted[:2] == ["00000-epoch-4", "00000-epoch-1"]
        assert sorted(tasks.submitted[2:]) == ["00000-epoch-1-quantize", "00000-epoch-4-quantize"]
    rows = ResultTables(out).candidates.read()
    assert [row["fact_recall_after_nf4"] for row in rows] == ["0.25", "", "", "0.25"]
    assert unattacked_epochs(out, settings, read_state(out)) == []
    items = json.loads((out / "items" / "00000-epoch-1.json").read_text())
    assert items["eval_log.json"]["rougeL_recall"] == {"0": 0.5}, "the items are those before the attack"


def test_metric_sets_after_the_search_are_measured_on_stored_models_like_attacks(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((out / "sweep.json").read_text())
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": content["baseline"] | {"mia_loss": 0.9}}))
    settings = replace(SETTINGS, trials=1, attacks="none", after_search=("mia",), attack_epsilon=0.0)
    assert [(item.metric_set, item.step) for item in unattacked_epochs(out, settings, read_state(out))] == [
        ("mia", 40),
        ("mia", 10),
    ]
    opened(out).log.record(MetricsMeasured("00000", 40, {"mia_loss": 0.5}))
    assert [(item.metric_set, item.step) for item in unattacked_epochs(out, settings, read_state(out))] == [("mia", 10)]


def test_the_plan_of_attacks_names_the_models_that_each_attack_still_misses(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((out / "sweep.json").read_text())
    baseline = content["baseline"] | {"fact_recall_after_nf4": 0.9}
    (out / "sweep.json").write_text(json.dumps(content | {"baseline": baseline}))
    opened(out).log.record(MetricsMeasured("00000", 40, {"fact_recall_after_nf4": 0.5}))
    settings = replace(SETTINGS, trials=1, attacks="quantize,sample", attack_epsilon=0.0)
    monkeypatch.setattr("sweeper.checks.attacks.estimate_pace", lambda *args, **kwargs: PACE)
    plan = AttackPlan.of(settings, out, slots=2)
    assert plan.attacks == {"quantize": ("00000-epoch-1",), "sample": ("00000-epoch-4", "00000-epoch-1")}
    assert (plan.controls, plan.measurements, plan.left_out) == (("sample",), 3, ())
    quantize, sample = (PACE.attack_seconds(ATTACKS[name], settings.base) for name in ("quantize", "sample"))
    assert quantize > (quantize + 2 * sample) / 2, "the longest of the tasks decides"
    assert plan.seconds == pytest.approx(sample + quantize + PACE.beside - PACE.generation)
    assert AttackPlan.of(replace(settings, attacks="none"), out, slots=2).seconds == 0.0
    sample_line = next(line for line in plan.format() if line.startswith("sample"))
    assert_names(sample_line, "the target", "00000-epoch-4", "00000-epoch-1")


def test_the_duration_of_a_plan_leaves_out_tasks_of_lm_eval_and_names_them() -> None:
    models = {"quantize": ("00001-epoch-2",), "lm_eval:mmlu": ("00001-epoch-2",)}
    plan = AttackPlan(out="runs/a", attacks=models, controls=(), left_out=(), measurements=2, seconds=60.0)
    assert plan.format()[-1].endswith("besides lm_eval:mmlu, whose duration is unknown")
    plan = replace(plan, attacks=models | {"quantize": ()}, measurements=1, seconds=None)
    assert plan.format()[-1].endswith("unknown for lm_eval:mmlu")


def test_a_metric_that_a_full_disk_kept_out_of_the_tables_is_in_them_when_the_models_to_attack_are_chosen(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recommended model is attacked first, and it follows from the metrics in the tables."""
    write_tables, full_disk = TableWriter.flush, [OSError("No space left on device")]

    def flush(tables: TableWriter, state: SweepState) -> None:
        is_last_metric = {10, 40} <= state.trials["00000"].measured.keys()
        if is_last_metric and full_disk:
            raise full_disk.pop()
        write_tables(tables, state)

    monkeypatch.setattr(TableWriter, "flush", flush)
    SequentialTasks(monkeypatch, {})
    written: list[list[str]] = []

    def choose(folder: Path, *_: object) -> list[object]:
        written.append([row["verbmem"] for row in ResultTables(folder).candidates.read()])
        return []

    monkeypatch.setattr("sweeper.driver.frontier_metrics.unattacked_epochs", choose)
    measure(out)
    assert written == [["0.5", "", "", "0.5"]]


def test_a_model_whose_checkpoint_is_gone_is_named_before_the_attack(out: Path) -> None:
    settings = replace(SETTINGS, trials=1, attacks="quantize")
    opened(out).log.flush()
    assert list(_model_problems(settings, out)) == []
    (out / "checkpoints" / "00000-epoch-4").rmdir()
    (problem,) = _model_problems(settings, out)
    assert_names(problem.text, "checkpoints/00000-epoch-4", "restore the folders")
