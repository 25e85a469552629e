"""Sweeps with successive halving: trials are stopped or paused at a rung, also across a kill and a resume.

Every epoch must be bit-identical to the epoch of the same grid without a scheduler.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.contract.product import Sweep, wait_until
from tests.e2e.conftest import GRID, Cli

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.ray]


EPOCHS = ("--epochs", "8", "--metrics", "retain_loss", "--front-metrics", "0")
MOASHA = (*EPOCHS, "--scheduler", "moasha", "--grace", "2", "--reduction", "2")
RUNGS = {2.0, 4.0}
SETTINGS = ("method", "c", "lr")


@pytest.fixture(scope="module")
def alone(cli: Cli) -> Sweep:
    """The grid without a scheduler, so every trial runs to its end."""
    sweep = cli.new("to-the-end")
    cli.run(*cli.pareto(sweep, *GRID, *EPOCHS))
    return sweep


def curves(sweep: Sweep) -> dict[tuple[str, ...], list[tuple[str, str, str]]]:
    """Return the epochs of each trial in order, with the losses as text."""
    settings = {row["trial_id"]: tuple(row[name] for name in SETTINGS) for row in sweep.trials}
    found: dict[tuple[str, ...], list[tuple[str, str, str]]] = defaultdict(list)
    for row in sorted(sweep.history, key=lambda row: int(row["step"])):
        found[settings[row["trial_id"]]].append((row["epoch"], row["forget_loss"], row["retain_loss"]))
    return found


def assert_ended_well(sweep: Sweep, undisturbed: Sweep) -> None:
    """Every trial has ended at a rung or at its last epoch, with the same epochs as without a scheduler."""
    assert len(sweep.trials) == 6
    whole, here = curves(undisturbed), curves(sweep)
    for row in sweep.trials:
        key = tuple(row[name] for name in SETTINGS)
        assert here[key] == whole[key][: len(here[key])]
        last = here[key][-1]
        assert (row["epochs_done"], row["forget_loss"], row["retain_loss"]) == last or row["status"] == "diverged"
        if row["status"] == "stopped":
            assert float(row["epochs_done"]) in RUNGS
            assert (row["checkpoint"], row["error"]) == ("", "")
        elif row["status"] == "finished":
            assert (row["epochs_done"], len(here[key])) == ("8.0", 8)
    assert not list(sweep.out.glob("ray/*/*/checkpoint_*")), "saved states of ended trials are left"


def test_trials_that_fall_behind_are_stopped_at_a_rung(cli: Cli, alone: Sweep) -> None:
    sweep = cli.new("halved")
    done = cli.run(*cli.pareto(sweep, *GRID, *MOASHA))
    summary = done.json

    assert_ended_well(sweep, alone)
    stopped = sweep.ids("stopped")
    assert stopped
    assert sweep.ids("finished")
    assert summary["status"]["stopped"] == len(stopped)
    assert "of 8 epochs" in done.stderr
    saved = 8 * len(stopped) - sum(float(row["epochs_done"]) for row in sweep.trials if row["status"] == "stopped")
    page = (sweep.out / "report.html").read_text()
    assert f"{len(stopped)} of 6 trials" in page
    assert f"{saved:g} of 48 epochs" in page


def test_after_kill_9_paused_trials_continue_from_their_saved_states(cli: Cli, alone: Sweep) -> None:
    sweep = cli.new("paused")
    # One worker: the same trials pause on every machine, and a state is complete while another trial runs.
    process = cli.start(*cli.pareto(sweep, *GRID, *MOASHA, "--stopping", "pause", "--max-concurrent", "1"))

    def saved() -> dict[str, int]:
        """Return the step of each unfinished trial's saved state."""
        from trainables.saved_state import read_state

        states = {path.parent.name: read_state(path) for path in sweep.out.glob("ray/*/*/checkpoint_*")}
        return {
            name: state["step"] for name, state in states.items() if state is not None and name in sweep.unfinished()
        }

    wait_until(lambda: bool(waiting := saved()) and bool(sweep.unfinished() - waiting.keys()), process)
    process.kill()
    process.communicate()
    assert cli.end_processes(patience=60) == {}, "Ray outlives its killed driver"
    kept = {row["trial_id"]: row for row in sweep.trials}
    steps = saved()
    before = [row for row in sweep.history if int(row["step"]) <= steps.get(row["trial_id"], -1)]

    cli.run("resume", sweep.out, "--json")

    assert {row["trial_id"]: row for row in sweep.trials if row["trial_id"] in kept} == kept
    assert_ended_well(sweep, alone)
    assert sweep.ids("finished")
    # Epochs before a saved state were not trained again: their rows have the same times.
    assert before
    assert all(row in sweep.history for row in before)
