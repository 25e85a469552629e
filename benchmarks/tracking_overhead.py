"""How much time does a report to MLflow cost a sweep, compared with a direct call of ``MlflowClient.log_batch``?

    python benchmarks/tracking_overhead.py

The tracker and the direct call log the same metrics to the same new SQLite store, in turns. Pauses between the reports
give the tracker's thread time to work. Only the time in the calling thread is measured. At the end, the script checks
that MLflow has every point that the tracker or the direct call logged.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.mlflow.runs import TrackedSweep
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.followers.mlflow.tracker import Tracker
from sweeper.store.columns import HISTORY_METRICS
from sweeper.store.event_log import EventLog
from sweeper.store.events import TrialEnded, TrialProposed, TrialReported, TrialStarted
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.spec import TrialSpec
from trainables.storage import Storage

ROUNDS = 5
REPORTS = 60  # per round, for the tracker and for the direct call
METRICS = HISTORY_METRICS[:15]
PAUSE = 0.002  # seconds


def main() -> None:
    """Run the comparison, and print the result."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{folder}/mlflow.db"
        out = Path(folder)
        log = EventLog(out / "events.jsonl")
        log.record(TrialProposed("00001", {"spec_hash": "benchmark", **TrialSpec().row()}))
        log.record(TrialStarted("00001"))
        store = ExperimentStore(uri=uri, experiment="benchmark", artifact_root=out)
        checkpoints = CheckpointManager(out, None, states=Storage(out.as_uri()))
        tracker = Tracker(log, TrackedSweep(id="benchmark", name="benchmark", out=out), store, checkpoints)
        client = MlflowClient(tracking_uri=uri)
        while (experiment := client.get_experiment_by_name("benchmark")) is None:
            time.sleep(0.1)
        run_id = client.create_run(experiment.experiment_id).info.run_id

        direct: list[float] = []
        tracked: list[float] = []
        for round_number in range(ROUNDS):
            steps = range(round_number * REPORTS, (round_number + 1) * REPORTS)
            for step in steps:
                values = example_metrics(step)
                begin = time.perf_counter()
                now = time.time_ns() // 1_000_000
                client.log_batch(run_id, metrics=[Metric(name, value, now, step) for name, value in values.items()])
                direct.append(time.perf_counter() - begin)
            for step in steps:
                values = example_metrics(step)
                log.record(TrialReported("00001", EpochReport(step, float(step), training=values)))
                begin = time.perf_counter()
                tracker.apply(log.records[-1].event, log.state)
                tracked.append(time.perf_counter() - begin)
                time.sleep(PAUSE)
        log.record(TrialEnded("00001", Outcome(status=Status.FINISHED)))
        unsent = tracker.close()
        (child,) = client.search_runs([experiment.experiment_id], "tags.trial_id = '00001'")
        for run in (run_id, child.info.run_id):
            arrived = len(client.get_metric_history(run, METRICS[0]))
            assert arrived == ROUNDS * REPORTS, f"{arrived} of {ROUNDS * REPORTS} points arrived"
        assert not unsent, unsent

    ratio = statistics.median(direct) / statistics.median(tracked)
    print(f"{ROUNDS * REPORTS} reports of {len(METRICS)} metrics, SQLite; seconds per report in the calling thread")
    print(f"{'':24}{'median':>12}{'mean':>12}{'99%':>12}")
    for name, times in (("MlflowClient.log_batch", direct), ("Tracker.apply", tracked)):
        high = statistics.quantiles(times, n=100)[98]
        print(f"{name:24}{statistics.median(times):12.2e}{statistics.mean(times):12.2e}{high:12.2e}")
    print(f"ratio of the medians: {ratio:,.0f}; MLflow has every point that either side logged")


def example_metrics(step: int) -> dict[str, float]:
    """Return as many metrics as a trial reports."""
    return {name: step + index / len(METRICS) for index, name in enumerate(METRICS)}


if __name__ == "__main__":
    main()
