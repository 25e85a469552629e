"""A running sweep is looked at and stopped from another terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray]

Cli = Any  # conftest.py has the classes
SweepFolder = Any


def runs_a_trial(sweep: SweepFolder) -> bool:
    """Whether the process that is at the sweep now says so."""
    return (sweep.out / "status.json").is_file() and bool(sweep.json("status.json")["running"])


def test_a_trial_and_then_the_sweep_are_stopped_from_elsewhere_and_a_resume_obeys_neither(cli: Cli) -> None:
    sweep = cli.new("stopped-from-elsewhere")
    grid = [argument for argument in cli.grid if argument != "1e9"]
    del grid[grid.index("0.1") + 1]  # its --lr
    driver = cli.start(*cli.pareto(sweep, *grid, "--scheduler", "none", "--max-concurrent", "1", "--epochs", "400"))
    cli.wait_until(lambda: runs_a_trial(sweep), driver)
    standing = json.loads(cli.run("status", sweep.out, "--json").stdout)
    assert (standing["state"], standing["asked"]) == ("running", 4)
    (trial_id,) = (item["trial_id"] for item in standing["running"])
    told = json.loads(cli.run("stop", sweep.out, trial_id, "--json").stdout)
    (row,) = sweep.trials
    assert (row["trial_id"], row["status"], row["error"]) == (trial_id, "stopped", "")
    assert told["status"] == "stopped"
    assert 0 < told["epoch"] < 400
    assert float(row["epochs_done"]) == told["epoch"]
    last = [item for item in sweep.history if item["trial_id"] == trial_id][-1]
    assert (last["epoch"], last["retain_loss"]) == (row["epochs_done"], row["retain_loss"])
    cli.wait_until(lambda: runs_a_trial(sweep), driver)
    assert "interrupted" in cli.run("stop", sweep.out).stdout
    cli.finish(driver, code=130)
    goes_on = cli.start("resume", sweep.out)
    cli.wait_until(lambda: runs_a_trial(sweep), goes_on)
    cli.run("stop", sweep.out)
    cli.finish(goes_on, code=130)
    assert [row["status"] for row in sweep.trials].count("stopped") == 1
    assert (sweep.out / "report.html").is_file()
