"""The addresses of a sweep's pages in MLflow's UI."""

from __future__ import annotations

from typing import Any

import pytest

from sweeper.cli import mlflow_pages
from sweeper.cli.mlflow_pages import SweepPages, sweep_pages

URL = "http://127.0.0.1:5000"


def tags(**values: str) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


@pytest.mark.parametrize("has_view", [True, False], ids=["with a saved view", "of an earlier version"])
def test_each_sweep_has_a_page_of_models_and_one_of_trials(monkeypatch: pytest.MonkeyPatch, has_view: bool) -> None:
    view = [{"key": "mlflow.sharedViewState.abc", "value": "{}"}] if has_view else []
    run = {"info": {"experiment_id": "7", "run_name": "my sweep"}, "data": {"tags": tags(sweep_id="abc")}}
    answers: dict[str, dict[str, Any]] = {
        "experiments/search": {"experiments": [{"experiment_id": "7", "tags": view}, {"experiment_id": "0"}]},
        "runs/search": {"runs": [run]},
    }
    monkeypatch.setattr(mlflow_pages, "_post", lambda url, endpoint, **content: answers[endpoint])
    state = "viewStateShareKey=abc&" if has_view else ""
    models = f"{URL}/#/experiments/7/models?workflowType=machine_learning"
    trials = f"{URL}/#/experiments/7/runs?{state}workflowType=machine_learning"
    assert list(sweep_pages(URL)) == [SweepPages("my sweep", models, trials)]
    answers["runs/search"] = {}
    assert list(sweep_pages(URL)) == []
    answers["experiments/search"] = {}
    assert list(sweep_pages(URL)) == []
