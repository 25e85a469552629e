"""A sweep that is interrupted and resumed ends as if nothing had happened; a running one can be stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tests.contract.problem import GRID, Problem
from tests.contract.product import Done, Finished, Product, Sweep, digests, untimed, wait_until
from tests.contract.tracking import assert_complete, records

pytestmark = pytest.mark.ray

METRICS = ("forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "utility")


@dataclass(frozen=True)
class Disturbed:
    """The grid of the reference sweep, interrupted by Ctrl-C and resumed."""

    product: Product
    sweep: Sweep
    interrupted: Done
    after_interrupt: dict[str, str]
    """The lines of trials.csv after Ctrl-C, by trial id."""
    resumed: Done


@pytest.fixture(scope="module")
def product(new_product: Callable[..., Product]) -> Product:
    return new_product("interruption")


@pytest.fixture(scope="module")
def disturbed(problem: Problem, product: Product) -> Disturbed:
    sweep = Sweep(product.folder / "disturbed")

    process = product.start(*product.pareto(problem.options, sweep.out, *GRID))
    wait_until(lambda: bool(sweep.ids("finished") and sweep.unfinished()), process)
    process.send_signal(signal.SIGINT)
    interrupted = product.finish(process, code=130)
    after_interrupt = sweep.lines()
    product.end_processes(patience=60)

    resumed = product.run(*interrupted.resume_command, "--json")
    return Disturbed(product, sweep, interrupted, after_interrupt, resumed)


# Ctrl-C ---------------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_with_code_130_and_the_resume_command(disturbed: Disturbed) -> None:
    command = disturbed.interrupted.resume_command
    assert command[0] == "resume"
    assert (disturbed.product.folder / command[1]).resolve() == disturbed.sweep.out.resolve()
    assert disturbed.interrupted.json["interrupted"] is True


def test_the_interruption_left_trials_to_run(disturbed: Disturbed) -> None:
    """Otherwise the tests below would show nothing."""
    assert 1 <= len(disturbed.after_interrupt) < 6


def test_finished_trials_never_run_again(disturbed: Disturbed) -> None:
    """Their rows stay as they were, times included."""
    at_the_end = disturbed.sweep.lines()
    kept = disturbed.after_interrupt
    assert {trial_id: at_the_end[trial_id] for trial_id in kept} == kept


def test_no_trial_is_lost_and_the_tables_equal_those_of_an_undisturbed_sweep(
    disturbed: Disturbed, reference: Finished
) -> None:
    assert disturbed.sweep.ids() == reference.sweep.ids()
    assert untimed(disturbed.sweep.trials) == untimed(reference.sweep.trials)
    assert untimed(disturbed.sweep.history) == untimed(reference.sweep.history)
    assert untimed(disturbed.sweep.candidates) == untimed(reference.sweep.candidates)


def test_the_frontier_the_answer_and_the_weights_equal_those_of_an_undisturbed_sweep(
    disturbed: Disturbed, reference: Finished
) -> None:
    found, expected = disturbed.sweep.pareto, reference.sweep.pareto
    for name in ("objectives", "reference", "hypervolume", "front", "baseline", "answer"):
        assert found[name] == expected[name], name
    assert digests(disturbed.sweep.out / "checkpoints") == digests(reference.sweep.out / "checkpoints")


def test_the_summary_after_a_resume_covers_the_whole_sweep(disturbed: Disturbed, reference: Finished) -> None:
    found, expected = disturbed.resumed.json, reference.done.json
    for name in ("trials", "status", "hypervolume", "front", "answer"):
        assert found[name] == expected[name], name


def test_mlflow_has_every_trial_and_value_once_after_a_resume(disturbed: Disturbed) -> None:
    found = records(disturbed.product.tracking_uri, disturbed.sweep.out.name)
    assert_complete(found, disturbed.sweep, METRICS)
    assert {run.info.status for run in found.runs} <= {"FINISHED", "FAILED"}
    assert len(found.recommended) == 1


# status and stop ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stopped:
    """A search of two long trials, the first stopped by ``stop DIR TRIAL`` and the sweep by ``stop DIR``."""

    sweep: Sweep
    while_running: Done
    trial_id: str
    trial_stopped: Done
    ended: Done
    afterwards: Done
    priorities: set[int]
    """The niceness of all processes while a trial runs."""


@pytest.fixture(scope="module")
def stopped(problem: Problem, product: Product) -> Stopped:
    sweep = Sweep(product.folder / "stopped")
    space = product.folder / "space.yaml"
    space.write_text("method: [ngdiff]\nlr: {low: 1e-4, high: 1e-2, log: true}\n")
    search = ("--space", space, "--enqueue", "lr=1e-3", "--trials", "2", "--scheduler", "none", "--max-concurrent", "1")
    long = ("--epochs", "500", "--batch-size", "10", "--optimizer", "sgd", "--gpus-per-trial", "0", "--json")
    process = product.start(*product.pareto(problem.options, sweep.out, *search, *long))

    wait_until(lambda: bool(sweep.unfinished()), process)
    wait_until(lambda: bool(product.run("status", sweep.out, "--json").json["running"]), process)
    while_running = product.run("status", sweep.out, "--json")
    priorities = set()
    for number in product.processes():
        with suppress(ProcessLookupError):  # a process that ended meanwhile
            priorities.add(os.getpriority(os.PRIO_PROCESS, number))
    (trial_id,) = sweep.unfinished()
    trial_stopped = product.run("stop", sweep.out, trial_id, "--json")
    wait_until(lambda: bool(sweep.unfinished() - {trial_id}), process)
    product.run("stop", sweep.out)
    ended = product.finish(process, code=130)
    afterwards = product.run("status", sweep.out, "--json")
    return Stopped(sweep, while_running, trial_id, trial_stopped, ended, afterwards, priorities)


def test_trials_run_with_the_priority_of_the_driver(stopped: Stopped) -> None:
    """Ray's own default would let them wait for every other program."""
    assert stopped.priorities == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_status_shows_a_running_sweep(stopped: Stopped) -> None:
    status = stopped.while_running.json
    assert status["state"] == "running"
    assert status["asked"] == 2
    assert [running["trial_id"] for running in status["running"]] == [stopped.trial_id]


def test_a_stopped_trial_keeps_the_values_of_its_last_epoch(stopped: Stopped) -> None:
    assert stopped.trial_stopped.json["status"] == "stopped"
    (row,) = [row for row in stopped.sweep.trials if row["trial_id"] == stopped.trial_id]
    assert (row["status"], row["error"]) == ("stopped", "")
    assert 0 < float(row["epochs_done"]) < 500
    last = [report for report in stopped.sweep.history if report["trial_id"] == stopped.trial_id][-1]
    assert (last["epoch"], last["retain_loss"]) == (row["epochs_done"], row["retain_loss"])


def test_a_stopped_sweep_ends_as_by_ctrl_c(stopped: Stopped) -> None:
    assert stopped.ended.resume_command[0] == "resume"
    assert stopped.afterwards.json["state"] == "interrupted"
    assert (stopped.sweep.out / "report.html").is_file()


def test_a_space_from_a_file_and_an_enqueued_point_are_obeyed(stopped: Stopped) -> None:
    methods = {row["method"] for row in stopped.sweep.trials}
    rates = {row["trial_id"]: float(row["lr"]) for row in stopped.sweep.history}
    assert methods == {"ngdiff"}
    assert rates.pop(stopped.trial_id) == 1e-3
    assert len(rates) == 1
    assert all(1e-4 <= rate <= 1e-2 for rate in rates.values())


def test_status_of_a_finished_sweep(product: Product, reference: Finished) -> None:
    status = product.run("status", reference.sweep.out, "--json").json
    assert status["state"] == "finished"
    assert {name: count for name, count in status["trials"].items() if count} == {"finished": 4, "diverged": 2}
    assert status["hypervolume"] == reference.sweep.pareto["hypervolume"]


def test_there_is_nothing_to_stop_in_a_finished_sweep(product: Product, reference: Finished) -> None:
    product.run("stop", reference.sweep.out, code=2)
    product.run("stop", reference.sweep.out, reference.sweep.ids()[0], code=2)
