"""Drive a Ray worker as Ray does, but without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import DONE

from search_spaces.common.front import Criteria
from search_spaces.common.objective import Objective
from trainables.run.reports import EpochReport, Outcome
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.worker.ray_trainable import UnlearningTrainable

CRITERIA = Criteria(
    (
        Objective(name="forget_loss", column="forget_loss_capped", direction="max"),
        Objective(name="retain_loss", column="retain_loss", direction="min"),
    )
)


def worker_config(spec: TrialSpec, trial_id: str = "t1", restore_from: str | None = None) -> dict[str, Any]:
    return {"spec": spec.to_dict(), "trial_id": trial_id, "restore_from": restore_from}


def steps_of(worker: UnlearningTrainable) -> list[dict[str, Any]]:
    results = [worker.step()]
    while not results[-1][DONE]:
        results.append(worker.step())
    return results


def numbers_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return reports and outcome without times, paths and host names."""
    return rows_of([result["report"] for result in results], results[-1]["outcome"])


def expected_of(spec: TrialSpec, workspace: Workspace) -> list[dict[str, Any]]:
    reports = list(UnlearningRun(spec, workspace))
    assert reports[-1].status is not None
    return rows_of(reports, Outcome.after(reports[-1], status=reports[-1].status))


def rows_of(reports: Sequence[EpochReport], outcome: Outcome) -> list[dict[str, Any]]:
    rows = [report.row() for report in reports]
    rows[-1] |= outcome.row()
    apart = {"checkpoint", "worker", "started_at", "first_step_at", "ended_at", "reported_at"}
    return [{name: row[name] for name in row if "seconds" not in name and name not in apart} for row in rows]
