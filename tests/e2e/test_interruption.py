"""A sweep whose driver or worker is stopped or killed has the same results as an undisturbed sweep.

The tests run the grid of the reference sweep. Their tables must equal its tables: same trials, bit-identical numbers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter

import pytest

from tests.contract.product import Done, Sweep, wait_until
from tests.contract.tracking import assert_complete, records
from tests.e2e.conftest import GRID, Cli, results, trainers
from tests.undisturbed import run_of

pytestmark = [pytest.mark.faults, pytest.mark.ray]


def reports_of_unfinished(sweep: Sweep) -> Counter[str]:
    """Return the number of reported epochs of each trial that has not ended."""
    unfinished = sweep.unfinished()
    return Counter(row["trial_id"] for row in sweep.history if row["trial_id"] in unfinished)


def wait_until_amid(sweep: Sweep, process: subprocess.Popen[str]) -> None:
    """Wait until at least one trial has finished and another has reported three epochs."""
    wait_until(lambda: sweep.ids("finished") and max(reports_of_unfinished(sweep).values(), default=0) >= 3, process)


def assert_equals(sweep: Sweep, reference: tuple[Sweep, Done]) -> None:
    undisturbed, _ = reference
    assert results(sweep) == results(undisturbed)
    assert sweep.candidates == undisturbed.candidates
    for name in ("hypervolume", "front", "baseline", "answer"):
        assert sweep.pareto[name] == undisturbed.pareto[name], name
    for row in sweep.candidates:
        if row["checkpoint"]:
            weights = [(place / row["checkpoint"] / "model.safetensors") for place in (sweep.out, undisturbed.out)]
            assert weights[0].read_bytes() == weights[1].read_bytes()


def kill_9(cli: Cli, process: subprocess.Popen[str]) -> None:
    """Kill the driver, so that it cannot clean up. The processes that it started must end by themselves."""
    process.kill()
    process.communicate()
    assert cli.end_processes(patience=60) == {}, "Ray outlives its killed driver"


def save_state(cli: Cli, sweep: Sweep, row: dict[str, str], *, epochs: int, seconds: float) -> None:
    """Save a trial's state after some epochs, as its worker does every 15 s. ``seconds`` marks the state."""
    import torch

    from trainables.saved_state import STATE_FILE

    with run_of(sweep, row, cache=cli.cache) as run:
        assert run.spec.spec_hash == row["spec_hash"]
        for _ in range(epochs):
            next(run)
    folder = (
        sweep.out / "ray" / "attempt-1" / row["trial_id"] / "checkpoint_000999"
    )  # newer than states of a slow worker
    folder.mkdir(parents=True, exist_ok=True)
    state = run.state_dict()
    state["tally"] |= {"train_seconds": seconds, "eval_seconds": 0.0}
    torch.save(state, folder / STATE_FILE)


def test_sigterm_during_the_start_interrupts_the_sweep(cli: Cli) -> None:
    """Cluster managers and service supervisors send SIGTERM."""
    sweep = cli.new("terminated")
    process = cli.start(*cli.pareto(sweep, *GRID))
    wait_until(lambda: (sweep.out / ".lock").exists(), process)
    process.send_signal(signal.SIGTERM)
    done = cli.finish(process, code=130)
    assert "sweeper resume" in done.stderr
    assert "interrupted by SIGTERM: " in done.stderr
    assert sweep.trials == []


def test_after_kill_9_of_the_driver_finished_trials_are_kept_and_other_trials_continue(
    cli: Cli, reference: tuple[Sweep, Done]
) -> None:
    sweep = cli.new("killed")
    process = cli.start(*cli.pareto(sweep, *GRID))
    wait_until(lambda: (sweep.out / ".lock").exists(), process)
    second = cli.run("resume", sweep.out, code=2)
    assert "running in another process" in second.stderr

    wait_until_amid(sweep, process)
    kill_9(cli, process)
    kept = sweep.lines()
    assert 0 < len(kept) < 6
    # A kill can leave half a line.
    for name in ("trials.csv", "history.csv", "optuna.log"):
        with (sweep.out / name).open("a") as file:
            file.write("00005,half a li")
    ((longest, reports),) = reports_of_unfinished(sweep).most_common(1)
    assert reports >= 2
    (saved,) = [row for row in reference[0].trials if row["trial_id"] == longest]
    save_state(cli, sweep, saved, epochs=2, seconds=5000)
    # A kill can happen between the end of a trial and the deletion of its saved states.
    (sweep.out / "ray" / "attempt-1" / min(kept) / "checkpoint_000000").mkdir(parents=True, exist_ok=True)

    summary = cli.run("resume", sweep.out, "--json").json

    assert summary["trials"] == 6
    assert {trial_id: sweep.lines()[trial_id] for trial_id in kept} == kept
    assert_equals(sweep, reference)
    continued = {row["trial_id"] for row in sweep.trials if float(row["train_seconds"]) > 5000}
    assert continued == {saved["trial_id"]}, "the trial did not continue from its saved state"
    assert not list(sweep.out.glob("ray/*/*/checkpoint_*")), "saved states of ended trials are left"
    assert_whole_in_mlflow(cli, sweep)


def assert_whole_in_mlflow(cli: Cli, sweep: Sweep) -> None:
    """Each trial has one run that has ended, with each value of the tables exactly once."""
    found = records(cli.tracking_uri, sweep.out.name)
    assert_complete(found, sweep, ("forget_loss",))
    assert {run.info.status for run in found.runs} == {"FINISHED", "FAILED"}


def test_after_kill_9_of_a_worker_its_trial_is_restarted_and_finishes(cli: Cli, reference: tuple[Sweep, Done]) -> None:
    sweep = cli.new("worker-killed")
    process = cli.start(*cli.pareto(sweep, *GRID))
    wait_until(lambda: len(sweep.unfinished()) == 2 and not sweep.trials, process)
    victim = trainers(cli)[0]
    os.kill(victim, signal.SIGKILL)
    summary = cli.finish(process).json
    assert summary["status"] == {"finished": 4, "stopped": 0, "diverged": 2, "failed": 0}
    assert not any(row["worker"].endswith(f":{victim}") for row in sweep.trials)
    assert_equals(sweep, reference)


def test_after_the_time_budget_the_remaining_trials_and_the_resume_command_are_printed(cli: Cli) -> None:
    """The budget starts when Ray has started, and 0.01 s are over before the first trial."""
    sweep = cli.new("no-time")
    done = cli.run(*[word for word in cli.pareto(sweep, *GRID) if word != "--json"], "--time-budget", "0.01", code=1)
    assert "time budget" in done.stdout
    assert "6 of 6 trials" in done.stdout
    assert f"python -m sweeper resume {sweep.out}" in done.stdout
    assert sweep.trials == []
    assert (sweep.out / "report.html").is_file()
