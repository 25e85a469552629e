"""``ui`` in a browser: the newest sweep's trials, sorted; the front; a trial; its checkpoint, which loads."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeper.followers.mlflow.runs import Recommendation
from tests.browser import CHROMIUM, Page, browsing
from tests.sweeper.followers.mlflow.conftest import Sweep
from trainables.data import load_data
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[3]
VERBMEM = {"00000": 0.9, "00001": 0.1, "00002": 0.4}
EARLY = Recommendation("00001", "2", "checkpoints/00001-epoch-2", "Take epoch 2 of trial 00001.")


@dataclass(frozen=True)
class Shown:
    """A running ``ui``: the lines it printed, its server, and the sweep it shows."""

    lines: list[str]
    server: str
    sweep: Sweep


@pytest.fixture(scope="module")
def shown(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("shown")
    shutil.copy(database, folder / "mlflow.db")
    uri = f"sqlite:///{folder}/mlflow.db"
    sweeps = [Sweep(folder / name, uri, "choosing", MlflowClient(tracking_uri=uri)) for name in ("old", "new")]
    for sweep in sweeps:
        session = sweep.open(name=f"the {sweep.folder.name} one")
        tokenizer = tokenizer_for("tiny-phi", load_data("authors", limit=20).full)
        save_model(make_tiny("tiny-phi", tokenizer), tokenizer, sweep.folder / EARLY.checkpoint)
        for trial_id, verbmem in VERBMEM.items():
            session.start(trial_id)
            session.report(trial_id, 2, verbmem=0.2)
            scores = {"utility": 0.8 * verbmem, "forget_loss": 1 / verbmem, "retain_loss": 0.5}
            session.end(trial_id, verbmem=verbmem, **scores)
        front = {"00001": {"2": EARLY.checkpoint}, "00002": {"3": ""}}
        assert session.finish(front=front, recommended=EARLY).pending == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sweeper", "ui", "--tracking-uri", uri, "--port", str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(4)]
            yield Shown(lines, f"http://127.0.0.1:{port}", sweeps[1])
        finally:
            process.terminate()


@pytest.fixture
def page() -> Iterator[Page]:
    with browsing() as browser:
        found = browser.open("about:blank")
        found.call("Emulation.setDeviceMetricsOverride", width=1500, height=900, deviceScaleFactor=1, mobile=False)
        yield found


def test_the_address_of_the_newest_sweeps_trials_is_printed(shown: Shown) -> None:
    address = shown.lines[0].strip()
    assert address.startswith(f"{shown.server}/#/experiments/")
    assert all(word in shown.lines[1] for word in ("the new one", "verbmem"))
    assert "tags.pareto = 'true'" in shown.lines[2]
    experiment = shown.sweep.client.get_experiment_by_name("choosing")
    key = re.fullmatch(r".*workflowType=machine_learning&viewStateShareKey=(\w+)", address)
    assert key is not None
    state = json.loads(experiment.tags[f"mlflow.sharedViewState.{key[1]}"])
    found = shown.sweep.client.search_runs([experiment.experiment_id], state["searchFilter"])
    assert sorted(run.info.run_name.partition(" gdiff")[0] for run in found) == sorted([*VERBMEM, EARLY.run_key])
    assert {run.data.tags["sweep_id"] for run in found} == {shown.sweep.id}
    assert (state["orderByKey"], state["orderByAsc"]) == ("metrics.`verbmem`", True)
    assert state["selectedColumns"][:4] == [
        f"metrics.`{name}`" for name in ("verbmem", "utility", "forget_loss", "retain_loss")
    ]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_one_chooses_a_checkpoint_in_the_browser(shown: Shown, page: Page, tmp_path: Path) -> None:
    page.go(shown.lines[0].strip())
    page.shows("4 matching runs")
    page.shows("retain_loss")
    for name in ("verbmem", "utility", "forget_loss"):
        page.shows(name)
    assert trials_on(page) == ["00001", "00001 epoch 2", "00002", "00000"]
    (tmp_path / "trials.png").write_bytes(page.picture())

    page.type_into("input[placeholder*=metrics]", " and tags.pareto = 'true'")
    page.shows("2 matching runs")
    assert trials_on(page) == ["00001", "00002"]
    page.go("about:blank")
    page.go(shown.lines[0].strip())
    page.shows("4 matching runs")
    page.type_into("input[placeholder*=metrics]", " and tags.recommended = 'true'")
    page.shows("1 matching run")
    assert trials_on(page) == ["00001 epoch 2"]

    tags = {"recommended": "true", "sweep_id": shown.sweep.id}  # the other sweep recommends one, too
    (run_id,) = (run.info.run_id for run in shown.sweep.runs() if tags.items() <= run.data.tags.items())
    page.ask(f"document.querySelector('a[href*=\"{run_id}\"]').click()")
    page.shows("Parent run")
    page.shows(EARLY.description)
    (parent_id,) = (
        run.info.run_id
        for run in shown.sweep.runs()
        if {"sweep_id": shown.sweep.id, "trial_id": "sweep"}.items() <= run.data.tags.items()
    )
    (tmp_path / "trial.png").write_bytes(page.picture())
    experiment = shown.sweep.client.get_run(run_id).info.experiment_id
    page.go(f"{shown.server}/#/experiments/{experiment}/runs/{run_id}/artifacts")
    page.shows("checkpoint")
    checkpoint = downloaded(shown.server, run_id, tmp_path / "got")

    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained(checkpoint).config.model_type == "phi"
    assert len(AutoTokenizer.from_pretrained(checkpoint)) > 100
    assert (tmp_path / "trials.png").stat().st_size > 10_000
    page.go(f"{shown.server}/#/experiments/{experiment}/runs/{parent_id}")
    page.wait_for(f"document.querySelector('a[href$=\"#/experiments/{experiment}/runs/{run_id}\"]') !== null")


def trials_on(page: Page) -> list[str]:
    """The trials in the table, from the top."""
    links = page.ask(
        "[...document.querySelectorAll('a[href*=\"/runs/\"]')].map(a => [a.getBoundingClientRect().top, a.innerText])"
    )
    return [name.partition(" gdiff")[0] for _, name in sorted(links) if re.match(r"\d{5} ", name)]


def downloaded(server: str, run_id: str, folder: Path) -> Path:
    """The files of the checkpoint by the addresses that the UI's download button uses."""
    folder.mkdir()
    query = f"run_id={run_id}&path=checkpoint"
    with urllib.request.urlopen(f"{server}/ajax-api/2.0/mlflow/artifacts/list?{query}") as answer:
        files = [item["path"] for item in json.loads(answer.read())["files"]]
    for path in files:
        with urllib.request.urlopen(f"{server}/get-artifact?path={path}&run_uuid={run_id}") as answer:
            (folder / Path(path).name).write_bytes(answer.read())
    return folder
