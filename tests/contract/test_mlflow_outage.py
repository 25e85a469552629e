"""An outage of MLflow: ``confirm`` works on a finished sweep, and a later resume sends MLflow the whole sweep."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.product import Finished, Product, Row, Sweep, digests, untimed
from tests.contract.tracking import assert_complete, free_port, kept, mlflow_server, records

pytestmark = pytest.mark.ray

METRICS = ("forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "utility")
TABLES = ("trials.csv", "history.csv", "candidates.csv")


@dataclass(frozen=True)
class Confirmed:
    """A copy of the reference sweep, with two fresh runs of its first trial."""

    sweep: Sweep
    summary: Any
    port: int
    """The port of the sweep's tracking server, which does not run yet."""

    @property
    def fresh(self) -> list[Row]:
        return [row for row in self.sweep.trials if row["phase"] == "confirm"]


@pytest.fixture(scope="module")
def confirmed(product: Product, reference: Finished, tmp_path_factory: pytest.TempPathFactory) -> Confirmed:
    sweep, port = Sweep(tmp_path_factory.mktemp("confirmed") / "copy"), free_port()
    shutil.copytree(reference.sweep.out, sweep.out)
    settings = sweep.out / "sweep.json"
    settings.write_text(settings.read_text().replace(reference.product.tracking_uri, f"http://127.0.0.1:{port}"))
    options = ("--trial", "00000", "--epoch", "3", "--runs", "2", "--json")
    return Confirmed(sweep, product.run("confirm", sweep.out, *options).json, port)


def test_the_configuration_is_trained_again_with_fresh_seeds(confirmed: Confirmed) -> None:
    fresh_runs = confirmed.summary["fresh_runs"]
    assert [(item["trial_id"], item["epoch"], item["runs"]) for item in fresh_runs] == [("00000", 3.0, 2)]
    names = ("confirms", "seed", "status", "epochs_done", "epochs")
    settings = [tuple(row[name] for name in names) for row in confirmed.fresh]
    assert settings == [("00000", seed, "finished", "3.0", "12") for seed in ("1", "2")]
    assert all((confirmed.sweep.out / row["checkpoint"] / "config.json").is_file() for row in confirmed.fresh)
    first = next(row for row in confirmed.sweep.candidates if (row["trial_id"], row["epoch"]) == ("00000", "3.0"))
    losses = {row["retain_loss"] for row in (first, *confirmed.fresh)}
    assert len(losses) == 3, "every seed has another order of the examples"


def test_the_results_of_the_search_stay_as_they_were(confirmed: Confirmed, reference: Finished) -> None:
    sweep = confirmed.sweep
    assert confirmed.summary["trials"] == 6
    assert untimed([row for row in sweep.trials if row["phase"] == "search"]) == untimed(reference.sweep.trials)
    assert sweep.candidates == reference.sweep.candidates
    assert sweep.pareto["front"] == reference.sweep.pareto["front"]


def test_when_mlflow_can_be_reached_a_resume_sends_everything_once_and_runs_no_trial_again(
    confirmed: Confirmed, product: Product, tmp_path: Path
) -> None:
    sweep = confirmed.sweep
    before = [(sweep.out / name).read_bytes() for name in TABLES]
    with mlflow_server(product, confirmed.port) as url:
        resumed = product.run("resume", sweep.out, "--json")
        found = records(url, "reference")
        assert_complete(found, sweep, METRICS)
        key, row = next(iter(kept(sweep).items()))
        assert digests(found.download(found.models[key], tmp_path)) == digests(sweep.out / row["checkpoint"])
    assert resumed.json["trials"] == 6
    assert [(sweep.out / name).read_bytes() for name in TABLES] == before
    tags = {name: (run.data.tags["phase"], run.data.tags.get("confirms", "")) for name, run in found.trials.items()}
    assert tags == {row["trial_id"]: (row["phase"], row["confirms"]) for row in sweep.trials}
