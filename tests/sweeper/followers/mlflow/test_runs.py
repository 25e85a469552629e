"""MLflow has the content of a sweep's event log: runs, parameters, metrics, times and tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sweeper.followers.mlflow.runs import end_of_sweep
from sweeper.store.events import Phase, TrialProposed
from tests.facts import assert_names
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import ROW, Sweep

ANSWER: dict[str, Any] = {
    "recommended": True,
    "trial_id": "00000",
    "epoch": 13.0,
    "checkpoint": "checkpoints/00000-epoch-13",
    "headline": "The headline.",
    "advice": None,
    "judged": ["It meets one threshold.", "It misses another."],
    "outcome": "a good trade-off",
}


@pytest.mark.parametrize("epoch", [0.5, 15.0, None])
def test_the_description_of_the_recommended_model_says_why(epoch: float | None) -> None:
    end = end_of_sweep("finished", {"answer": ANSWER | {"epoch": epoch}})
    found = end.recommended
    assert found is not None
    assert found.candidate == ("00000", epoch)
    assert_names(found.description, ANSWER["headline"], *ANSWER["judged"])
    assert end.tags["recommended_trial"] == "00000"
    assert end.tags["recommended_epoch"] == ("last" if epoch is None else f"{epoch:g}")
    nothing = end_of_sweep("finished", {"answer": ANSWER | {"recommended": False}})
    assert (nothing.recommended, nothing.tags["recommended_trial"]) == (None, "none")


def test_the_runs_of_trials_on_the_frontier_are_tagged_and_untagged_when_they_leave_it(sweep: Sweep) -> None:
    session, ids = sweep.open(), ("00000", "00001", "00002")
    for trial_id in ids:
        session.run(trial_id)
    for front, expected in (({"00000", "00001"}, ["true", "true", None]), ({"00000"}, ["true", "false", None])):
        session.finish(front=[(trial_id, 1.0) for trial_id in front])
        assert [sweep.trial(trial_id).data.tags.get("pareto") for trial_id in ids] == expected
        session = sweep.open()
    session.close()


def test_a_confirm_trial_names_the_trial_that_it_confirms(sweep: Sweep) -> None:
    session = sweep.open()
    session.run("00001")
    session.log.record(TrialProposed("confirm-000", ROW, phase=Phase.CONFIRM, confirms="00001"))
    session.run("confirm-000")
    session.close()
    tags = [sweep.trial(trial_id).data.tags for trial_id in ("00001", "confirm-000")]
    assert [(item["phase"], item.get("confirms")) for item in tags] == [("search", None), ("confirm", "00001")]


def test_the_page_of_the_trials_shows_the_trials_of_the_search_and_merged_models(sweep: Sweep) -> None:
    session = sweep.open()
    session.run("00001")
    others = {"merged-000": Phase.MERGE, "00001-fresh-1": Phase.CONFIRM, "saw-001": Phase.AUDIT}
    for trial_id, phase in others.items():
        session.log.record(TrialProposed(trial_id, ROW, phase=phase))
        session.run(trial_id)
    session.close()
    experiment = sweep.client.get_experiment_by_name(sweep.experiment)
    query = json.loads(experiment.tags[f"mlflow.sharedViewState.{sweep.id}"])["searchFilter"]
    found = sweep.client.search_runs([experiment.experiment_id], query)
    assert sorted(run.data.tags["trial_id"] for run in found) == ["00001", "merged-000"]


def test_a_running_trial_is_in_mlflow_before_its_first_report_and_its_reports_before_its_end(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    wait_until(lambda: len(sweep.runs()) == 2)
    run = sweep.trial("00001")
    assert (run.info.status, run.info.run_name) == ("RUNNING", "00001 gdiff c=0.40 lr=1.0e-04")
    assert (sweep.parent.info.run_name, run.data.tags["sweep"]) == ("my sweep", "my sweep")
    session.report("00001", 1, forget_loss=0.5)
    wait_until(lambda: sweep.points("00001") == [(1, 0.5)])
    session.end("00001")
    wait_until(lambda: sweep.trial("00001").info.status == "FINISHED")
    session.close()


def test_a_run_has_the_times_and_the_status_of_its_trial_and_only_finite_metrics(sweep: Sweep) -> None:
    expected = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
    session = sweep.open()
    for status in expected:
        session.start(status)
        session.end(status, status, error="out of memory" if status == "failed" else None)
    session.start("00001")
    bad = {"verbmem": None, "lr": float("nan"), "c_t": float("inf")}
    session.report("00001", 1, forget_loss=1.0, reported_at=1.7e9, **bad)
    session.report("00001", 2, reported_at=1.7e9 + 1, retain_loss=float("nan"))
    session.end("00001", utility=0.5, retain_loss=float("-inf"), started_at=1.7e9 - 5, ended_at=1.7e9 + 5)
    session.close()
    run = sweep.trial("00001")
    times = {name: sweep.client.get_metric_history(run.info.run_id, name)[0].timestamp for name in run.data.metrics}
    names = ("forget_loss", "epoch", "seconds", "utility")
    assert times == dict(zip(names, (*[1_700_000_000_000] * 3, 1_700_000_005_000), strict=True))
    assert run.info.end_time == 1_700_000_005_000
    assert {status: sweep.trial(status).info.status for status in expected} == expected
    assert {sweep.trial(status).data.tags["status"] for status in expected} == set(expected)
    assert sweep.trial("failed").data.tags["error"] == "out of memory"
    assert "error" not in sweep.trial("finished").data.tags


def test_values_beyond_mlflows_limits_are_shortened(sweep: Sweep) -> None:
    params = {f"p{number}": number for number in range(150)}
    session = sweep.open(params=params, tags={"note": "y" * 9000})
    session.start("00001", model_path="x" * 7000)
    names = ("forget_loss", "retain_loss", "lr", "c_t")
    for step in range(300):
        session.report("00001", step, **dict.fromkeys(names, step))
    session.end("00001", "failed", error="z" * 9000)
    assert session.close().pending == 0
    parent, run = sweep.parent, sweep.trial("00001")
    assert len(parent.data.params) == 150
    assert len(run.data.params["model_path"]) == 6000
    assert (len(parent.data.tags["note"]), len(run.data.tags["error"])) == (5000, 5000)
    for name in names:
        assert sweep.points("00001", name) == [(step, float(step)) for step in range(300)]
