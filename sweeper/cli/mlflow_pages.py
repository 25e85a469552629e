"""Which pages of MLflow's UI show the newest sweeps?"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MAX_SWEEPS = 5
_MODEL_TRAINING = "workflowType=machine_learning"  # otherwise, the UI shows pages for LLM traces
_SAVED_VIEW = "mlflow.sharedViewState."
"""The beginning of the tag of an experiment with the state of a page, see ``ExperimentStore.save_view``."""


@dataclass(frozen=True, slots=True)
class SweepPages:
    """The URLs of the pages with the models and with the trials of a sweep.

    The page with the models shows the models of all sweeps in the sweep's experiment.
    """

    name: str
    models: str
    trials: str


def sweep_pages(url: str) -> Iterator[SweepPages]:
    """Yield the pages of the newest sweeps on the MLflow server at ``url``, the newest sweep first.

    Raises:
        OSError: the server does not answer.
    """
    experiments = _post(url, "experiments/search", max_results=1000).get("experiments", [])
    tags_by_id = {item["experiment_id"]: _tags(item) for item in experiments}
    if not tags_by_id:
        return
    runs = _post(
        url,
        "runs/search",
        experiment_ids=list(tags_by_id),
        filter="tags.trial_id = 'sweep'",
        order_by=["attributes.start_time DESC"],
        max_results=_MAX_SWEEPS,
    )
    for run in runs.get("runs", []):
        experiment_id, sweep_id = run["info"]["experiment_id"], _tags(run["data"]).get("sweep_id", "")
        page = f"{url}/#/experiments/{experiment_id}"
        has_view = f"{_SAVED_VIEW}{sweep_id}" in tags_by_id[experiment_id]
        view = f"viewStateShareKey={sweep_id}&" if has_view else ""
        yield SweepPages(
            name=run["info"]["run_name"],
            models=f"{page}/models?{_MODEL_TRAINING}",
            trials=f"{page}/runs?{view}{_MODEL_TRAINING}",
        )


def _tags(item: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in item.get("tags", [])}


def _post(url: str, endpoint: str, **content: object) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/{endpoint}",
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return dict(json.load(response))
