"""A sweep that reuses a previous sweep does not run equal trials again."""

from __future__ import annotations

import pytest

from tests.contract.product import Sweep
from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]

SHORT = ("--optimizer", "sgd", "--batch-size", "5", "--epochs", "3", "--gpus-per-trial", "0", "--json")
GRID = ("--sampler", "grid", "--method", "ngdiff", "--lr", "0.05", "--lr", "0.1")


@pytest.fixture(scope="module")
def before(cli: Cli) -> Sweep:
    sweep = cli.new("before")
    cli.run(*cli.pareto(sweep, *GRID, *SHORT))
    return sweep


def test_a_larger_grid_runs_only_the_missing_trials(cli: Cli, before: Sweep) -> None:
    sweep = cli.new("reused")
    done = cli.run(*cli.pareto(sweep, *GRID, *SHORT, "--lr", "0.02", "--reuse", before.out))
    summary = done.json
    assert (summary["trials"], summary["reused"], summary["ended_because"]) == (3, 2, None)
    assert [row["lr"] for row in sweep.trials if not row["reused_from"]] == ["0.02"]
    known = {row["spec_hash"]: row for row in before.trials}
    for row in sweep.trials:
        if row["reused_from"]:
            old = known.pop(row["spec_hash"])
            assert row["reused_from"] == f"{before.out}/{old['trial_id']}"
            same = ("status", "forget_loss", "retain_loss", "utility", "ended_at", "worker")
            assert [row[name] for name in same] == [old[name] for name in same]
        assert (sweep.out / row["checkpoint"] / "model.safetensors").is_file()
    assert not known
    assert {row["trial_id"] for row in sweep.history} == {row["trial_id"] for row in sweep.trials}
