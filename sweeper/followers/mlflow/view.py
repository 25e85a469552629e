"""Build the address in MLflow's UI that shows a sweep's trials and its recommended epoch, sorted by a metric.

MLflow stores which runs and columns are shown in a tag of the experiment; the address has the key of the tag. The
requests go to the UI's own server, because no second process should open its database.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.followers.mlflow.runs import PARETO, RECOMMENDED, SHOWN, SWEEP

_STATE = "mlflow.sharedViewState."
_COLUMNS = ("verbmem", "utility", "forget_loss", "retain_loss")
"""The metrics to show for a sweep without the tag SHOWN."""
_SETTINGS = ("method", "lr", "c")


@dataclass(frozen=True, slots=True)
class View:
    """``address`` shows the runs of the trials of ``sweep``, in ascending order of the column ``by``."""

    address: str
    sweep: str
    by: str


def answers(server: str) -> bool:
    """Return whether MLflow's server is up."""
    try:
        with urllib.request.urlopen(f"{server}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def newest_view(server: str) -> View | None:
    """Create the view of the sweep that started last. Return None if the server has no sweep.

    Raises:
        OSError, ValueError: the server does not answer, or is not MLflow.
    """
    sweep = _newest_sweep(server)
    if sweep is None:
        return None
    tags = {item["key"]: item["value"] for item in sweep["data"].get("tags", ())}
    experiment = sweep["info"]["experiment_id"]
    shown = tuple(filter(None, tags.get(SHOWN, "").split(","))) or _COLUMNS
    state = json.dumps(_state(tags["sweep_id"], shown))
    key = hashlib.sha256(state.encode()).hexdigest()[:16]
    _ask(server, "experiments/set-experiment-tag", experiment_id=experiment, key=_STATE + key, value=state)
    address = f"{server}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={key}"
    return View(address, sweep["info"].get("run_name") or "", shown[0])


def _newest_sweep(server: str) -> dict[str, Any] | None:
    experiments, token = [], ""
    while True:
        page = _ask(server, "experiments/search", max_results=1000, page_token=token)
        experiments += [item["experiment_id"] for item in page.get("experiments", ())]
        if not (token := page.get("next_page_token", "")):
            break
    found = _ask(
        *(server, "runs/search"),
        experiment_ids=experiments,
        filter=f"tags.trial_id = '{SWEEP}'",
        order_by=["attributes.start_time DESC"],
        max_results=1,
    )
    return next(iter(found.get("runs", ())), None)


def _state(sweep_id: str, shown: tuple[str, ...]) -> dict[str, object]:
    """Return the state of the UI's table of runs, as MLflow stores it."""
    columns = [f"metrics.`{name}`" for name in shown]
    columns += [f"params.`{name}`" for name in _SETTINGS] + [f"tags.`{name}`" for name in (PARETO, RECOMMENDED)]
    return {
        "searchFilter": f"tags.sweep_id = '{sweep_id}' and tags.`mlflow.parentRunId` != ''",
        "orderByKey": columns[0],
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
    }


def _ask(server: str, what: str, **content: object) -> Mapping[str, Any]:
    request = urllib.request.Request(
        f"{server}/api/2.0/mlflow/{what}",
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: Mapping[str, Any] = json.loads(answer.read() or b"{}")
    return found
