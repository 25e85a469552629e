"""Confirm trials survive a killed driver."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.contract.product import Sweep, wait_until
from tests.e2e.conftest import Cli
from tests.undisturbed import run_of

pytestmark = [pytest.mark.faults, pytest.mark.ray]

ONE = (
    "--sampler",
    "grid",
    "--method",
    "ngdiff",
    "--lr",
    "0.05",
    "--batch-size",
    "5",
    "--gpus-per-trial",
    "0",
    "--json",
)
"""One trial."""


def fresh_rows(sweep: Sweep) -> list[Mapping[str, str]]:
    return [row for row in sweep.trials if row["phase"] == "confirm"]


def test_after_kill_9_in_the_confirm_phase_resume_runs_what_remains(cli: Cli) -> None:
    sweep = cli.new("confirm-killed")
    cli.run(*cli.pareto(sweep, *ONE, "--epochs", "60"))
    process = cli.start("confirm", sweep.out, "--trial", "00000", "--epoch", "60", "--runs", "3", "--json")

    def is_amid() -> bool:
        """Whether a fresh run has reported, and not all have ended."""
        reported = {row["trial_id"] for row in sweep.history if row["phase"] == "confirm"}
        return bool(reported) and len(fresh_rows(sweep)) < 3

    wait_until(is_amid, process)
    process.kill()
    process.communicate()
    assert cli.end_processes(patience=60) == {}
    kept = {row["trial_id"] for row in fresh_rows(sweep)}
    assert len(kept) < 3

    summary = cli.run("resume", sweep.out, "--json").json

    assert [(item["trial_id"], item["epoch"], item["runs"]) for item in summary["fresh_runs"]] == [("00000", 60.0, 3)]
    rows = fresh_rows(sweep)
    assert [(row["trial_id"], row["seed"], row["status"]) for row in rows] == [
        (f"confirm-{number:03d}", str(number + 1), "finished") for number in range(3)
    ]
    for row in rows:
        with run_of(sweep, row, cache=cli.cache) as run:
            *_, last = [next(run) for _ in range(60)]
        assert float(row["retain_loss"]) == last.losses["retain_loss"]
    assert not list(sweep.out.glob("ray/*/*/checkpoint_*")), "saved states of ended trials are left"
