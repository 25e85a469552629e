"""The address in MLflow's UI that shows a sweep's trials, and the epoch recommended, with their metrics, sorted.

MLflow keeps which runs are shown, with which columns, under a key of the experiment's tags; the address names the key.
It is asked through the server that the UI is of, so that nobody else opens its database.
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
"""Of a sweep that does not say what is looked at first."""
_SETTINGS = ("method", "lr", "c")


@dataclass(frozen=True, slots=True)
class View:
    """``address`` shows all runs of the ``sweep`` but its own, the least of the column ``by`` first."""

    address: str
    sweep: str
    by: str


def answers(server: str) -> bool:
    """Whether MLflow's server is up."""
    try:
        with urllib.request.urlopen(f"{server}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def newest_view(server: str) -> View | None:
    """The view of the sweep that began last; None where there is none.

    Raises:
        OSError, ValueError: the server does not answer, or not as MLflow does.
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
    """What MLflow's UI keeps of a table of runs."""
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
