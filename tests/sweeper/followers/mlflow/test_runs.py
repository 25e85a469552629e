"""What is in a sweep's tables is in MLflow: runs, parameters, metrics, times, tags."""

from __future__ import annotations

from pathlib import Path

from sweeper.followers.mlflow.runs import finite_metrics, run_name, trial_run
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import ROW, THREE, Sweep


def test_a_trial_reads_back_with_its_params_metrics_tags_and_parent(sweep: Sweep) -> None:
    session = sweep.open()
    session.run("00007")
    told = {"answer": "Nothing was forgotten: ...", "recommended_trial": "none"}
    session.tracker.sweep_ended(status="finished", metrics={"hypervolume": 0.75}, tags=told)
    summary = session.close()

    (parent,) = sweep.parents()
    assert (parent.info.run_id, parent.info.run_name) == (summary.run_id, "my sweep")
    assert parent.info.status == "FINISHED"
    assert parent.data.params == {"trials": "2"}
    assert parent.data.metrics == {"hypervolume": 0.75}
    assert told.items() <= parent.data.tags.items()
    child = sweep.trial("00007")
    assert child.info.run_name == "00007 gdiff c=0.4 lr=1e-4"
    assert child.info.status == "FINISHED"
    assert child.data.params == {"method": "gdiff", "c": "0.4", "lr": "0.0001", "auto_lr": "off"}
    expected = {"spec_hash": "cafe", "method": "gdiff", "auto_lr": "off", "status": "finished", "sweep": "my sweep"}
    assert {key: child.data.tags[key] for key in expected} == expected
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert sweep.points("00007") == THREE
    assert sweep.points("00007", "utility") == [(3, 0.5)]
    assert (summary.pending, summary.message) == (0, None)


def test_the_runs_of_trials_on_the_frontier_are_tagged_and_untagged_when_they_leave_it(sweep: Sweep) -> None:
    session, ids = sweep.open(), ("00000", "00001", "00002")
    for trial_id in ids:
        session.run(trial_id)
    ends, early = "checkpoints/00000", "checkpoints/00000-epoch-2"
    for front, expected in (
        (
            {"00000": {"2": early, "3": ends}, "00001": {"1": ""}},
            [["true", "2, 3", f"{early}, {ends}"], ["true", "1", "none"], [None, None, None]],
        ),
        ({"00000": {"3": ends}}, [["true", "3", ends], ["false", "none", "none"], [None, None, None]]),
    ):
        session.tracker.sweep_ended(status="finished", metrics={}, front=front)
        session.close()
        tags = ("pareto", "pareto_epochs", "pareto_checkpoints")
        assert [[sweep.trial(name).data.tags.get(tag) for tag in tags] for name in ids] == expected
        session = sweep.open()
    session.close()


def test_a_running_trial_is_there_before_its_first_report_and_its_reports_before_its_end(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    wait_until(lambda: len(sweep.runs()) == 2)
    assert sweep.trial("00001").info.status == "RUNNING"
    session.report("00001", 1, forget_loss=0.5)
    wait_until(lambda: sweep.points("00001") == [(1, 0.5)])
    session.end("00001")
    wait_until(lambda: sweep.trial("00001").info.status == "FINISHED")
    session.close()


def test_the_times_are_the_ledgers(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    session.report("00001", 1, forget_loss=1.0, reported_at=1.7e9)
    session.end("00001", utility=0.5, started_at=1.7e9 - 5, ended_at=1.7e9 + 5)
    session.close()
    run = sweep.trial("00001")
    times = [sweep.client.get_metric_history(run.info.run_id, name)[0].timestamp for name in run.data.metrics]
    assert dict(zip(run.data.metrics, times, strict=True)) == {
        "forget_loss": 1_700_000_000_000,
        "utility": 1_700_000_005_000,
    }
    assert run.info.end_time == 1_700_000_005_000


def test_each_status_has_its_place_in_mlflow_and_the_exact_one_as_a_tag(sweep: Sweep) -> None:
    expected = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
    session = sweep.open()
    for status in expected:
        if status != "failed":  # its worker never started
            session.start(status)
        session.end(status, status, error="out of memory" if status == "failed" else None)
    session.close()
    assert {status: sweep.trial(status).info.status for status in expected} == expected
    assert {sweep.trial(status).data.tags["status"] for status in expected} == set(expected)
    assert sweep.trial("failed").data.tags["error"] == "out of memory"
    assert sweep.trial("failed").data.params["method"] == "gdiff"
    assert "error" not in sweep.trial("finished").data.tags


def test_metrics_that_are_not_finite_numbers_are_left_out(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    session.report("00001", 1, forget_loss=1.0, verbmem=None, lr=float("nan"), c_t=float("inf"))
    session.report("00001", 2, retain_loss=float("nan"))
    session.end("00001", "diverged", forget_loss=float("-inf"))
    session.close()
    assert sweep.trial("00001").data.metrics == {"forget_loss": 1.0}


def test_what_exceeds_mlflows_limits_is_fitted_to_them(sweep: Sweep) -> None:
    params = {f"p{number}": number for number in range(150)} | {"n" * 300: 1, "a//b|c": 2}
    session = sweep.open(parent_params=params, parent_tags={"note": "y" * 9000})
    session.start("00001", model_path="x" * 7000)
    for step in range(300):
        session.report("00001", step, **dict.fromkeys(("forget_loss", "retain_loss", "lr", "c_t"), step))
    session.end("00001", "failed", error="z" * 9000)
    assert session.close().pending == 0
    (parent,), run = sweep.parents(), sweep.trial("00001")
    assert len(parent.data.params) == 152
    assert (parent.data.params["n" * 250], parent.data.params["a__b_c"]) == ("1", "2")
    assert len(run.data.params["model_path"]) == 6000
    assert (len(parent.data.tags["note"]), len(run.data.tags["error"])) == (5000, 5000)
    for name in ("forget_loss", "retain_loss", "lr", "c_t"):
        assert sweep.points("00001", name) == [(step, float(step)) for step in range(300)]
    assert finite_metrics({"P(y|x)": 1.0}, ["P(y|x)"]) == {"P_y_x_": 1.0}


def test_an_experiment_that_exists_keeps_its_artifact_location(sweep: Sweep, tmp_path: Path) -> None:
    location = (tmp_path / "elsewhere").as_uri()
    sweep.client.create_experiment(sweep.experiment, artifact_location=location)
    sweep.open().close()
    assert sweep.parents()[0].info.artifact_uri.startswith(location)


def test_the_name_of_a_run_has_method_and_rates() -> None:
    assert run_name("00001", {"method": "npo", "c": 1.0, "lr": 5e-6}) == "00001 npo c=1 lr=5e-6"
    auto = {"method": "gdiff", "c": "", "lr": "0.000125", "auto_lr": "on"}  # as a CSV row has them
    assert run_name("00001", auto) == "00001 gdiff lr=1.25e-4 auto"


def test_a_trial_has_the_same_parameters_as_it_begins_and_in_its_row(sweep: Sweep, tmp_path: Path) -> None:
    """Else a resumed sweep would say that they have changed."""
    row = ROW | {"seed": 3, "lr": 1 / 3, "c": 1e-7, "lora_rank": None, "gradient_checkpointing": True}
    ResultTables(tmp_path).trials.append([row])
    (read,) = ResultTables(tmp_path).trials.read()
    assert trial_run("1", read, sweep_name="s").params == trial_run("1", row, sweep_name="s").params
