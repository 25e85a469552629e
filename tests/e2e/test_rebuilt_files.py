"""The files of a finished sweep are rebuilt from its event log."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.contract.product import Done, Sweep
from tests.contract.tracking import records
from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]

TABLES = ("trials.csv", "history.csv", "candidates.csv")


def test_deleted_tables_reports_and_mlflow_records_are_rebuilt_from_the_event_log(
    cli: Cli, reference: tuple[Sweep, Done]
) -> None:
    source, first = reference
    sweep = cli.new("rebuilt")
    shutil.copytree(source.out, sweep.out)
    before = {name: (sweep.out / name).read_bytes() for name in TABLES}
    for name in (*TABLES, "status.json", "pareto.json", "report.html"):
        (sweep.out / name).unlink()
    database = cli.folder / "rebuilt.db"
    away = replace(cli, environment={**cli.environment, "MLFLOW_TRACKING_URI": f"sqlite:///{database}"})
    text = (sweep.out / "sweep.json").read_text()
    (sweep.out / "sweep.json").write_text(text.replace(cli.tracking_uri, f"sqlite:///{database}"))
    summary = away.run("resume", sweep.out, "--json").json
    assert {name: (sweep.out / name).read_bytes() for name in before} == before
    assert summary["hypervolume"] == first.json["hypervolume"]
    assert sweep.json("pareto.json")["front"] == source.json("pareto.json")["front"]
    assert sorted(records(f"sqlite:///{database}", source.out.name).trials) == sorted(sweep.ids())
