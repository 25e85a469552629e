"""Confirm trials run on Ray like every trial, with the seed as the only difference, and survive a killed driver."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.contract.product import Sweep, untimed, wait_until
from tests.contract.tracking import records
from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.ray]

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


def losses_by_hand(cli: Cli, sweep: Sweep, row: Mapping[str, str], *, epoch: int) -> dict[str, float]:
    """Return the losses after ``epoch`` epochs of an undisturbed run with the settings and the seed of the row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.run.workspace import Workspace
    from trainables.spec import TrialSpec
    from trainables.target.prepare import prepare_target

    base = TrialSpec.from_dict(sweep.json("sweep.json")["settings"]["base"])
    target = prepare_target(base, cache=cli.folder / "cache" / "sweeper", device="cpu")
    asked = {"method": row["method"], "lr": float(row["lr"]), "seed": int(row["seed"]), "options": {}}
    spec = TrialSpec.from_dict(base.to_dict() | asked | {"target_key": target.key})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run = UnlearningRun(spec, Workspace(target, device="cpu"))
    reports = [next(run) for _ in range(epoch)]
    torch.set_num_threads(threads)
    return dict(reports[-1].losses)


def test_confirm_trains_a_configuration_again_with_fresh_seeds(cli: Cli) -> None:
    sweep = cli.new("confirmed")
    cli.run(*cli.pareto(sweep, *ONE, "--epochs", "4"))
    searched, candidates = untimed(sweep.trials), sweep.candidates
    front = sweep.json("pareto.json")["front"]
    refused = cli.run("confirm", sweep.out, "--trial", "00009", "--runs", "0", code=2).stderr
    assert "--runs must be at least 1, got 0" in refused
    assert "--trial 00009: " in refused

    options = ("--trial", "00000", "--epoch", "3", "--runs", "2", "--json")
    summary = cli.run("confirm", sweep.out, *options).json

    assert (summary["trials"], summary["status"]["finished"]) == (1, 1), "the search is what it was"
    assert [(item["trial_id"], item["epoch"], item["runs"]) for item in summary["fresh_runs"]] == [("00000", 3.0, 2)]
    assert untimed([row for row in sweep.trials if row["phase"] == "search"]) == searched
    assert (sweep.candidates, sweep.json("pareto.json")["front"]) == (candidates, front)
    rows = fresh_rows(sweep)
    settings = [(row["confirms"], row["seed"], row["status"], row["epochs_done"], row["epochs"]) for row in rows]
    assert settings == [("00000", "1", "finished", "3.0", "4"), ("00000", "2", "finished", "3.0", "4")]
    assert all((sweep.out / row["checkpoint"] / "config.json").is_file() for row in rows)
    for row in rows:
        for name, value in losses_by_hand(cli, sweep, row, epoch=3).items():
            assert float(row[name]) == value
    found = records(cli.tracking_uri, sweep.out.name)
    tagged = {run.data.tags["trial_id"]: run.data.tags for run in found.runs if "confirms" in run.data.tags}
    assert {trial_id: (tags["phase"], tags["confirms"]) for trial_id, tags in tagged.items()} == {
        row["trial_id"]: ("confirm", "00000") for row in rows
    }

    again = cli.run("confirm", sweep.out, *options).json
    assert again["fresh_runs"] == summary["fresh_runs"], "runs that have ended do not run again"
    assert len(fresh_rows(sweep)) == 2


@pytest.mark.faults
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
        assert float(row["retain_loss"]) == losses_by_hand(cli, sweep, row, epoch=60)["retain_loss"]
    assert not list(sweep.out.glob("ray/*/*/checkpoint_*")), "saved states of ended trials are left"
