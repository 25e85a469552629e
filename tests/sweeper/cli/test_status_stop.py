"""``status`` and ``stop`` of a running, a killed and a finished sweep."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from search_spaces.common.durable import exclusive
from sweeper.driver.control_server import ControlServer
from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.events import TrialCut
from sweeper.store.folder import Origin, begin, write_sweep_json
from tests.facts import assert_names
from tests.sweeper.cli.conftest import invoke, json_of, names, refused
from tests.sweeper.conftest import SETTINGS, TARGET, report, run_trial, running, wait_until


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder of a sweep whose target was prepared."""
    folder = tmp_path / "out"
    begin(SETTINGS, folder)
    write_sweep_json(folder, SETTINGS, Origin("id", "2026"), targets={0: TARGET})
    return folder


@pytest.fixture
def running_sweep(out: Path, sweep: OpenSweep, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenSweep]:
    """The sweep, run by this process."""
    monkeypatch.setattr("sweeper.driver.control_server.POLL_SECONDS", 0.02)
    with exclusive(out, RuntimeError()), ControlServer(out) as server:
        server.follow(sweep)
        yield sweep


def status_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json_of("status", out)
    return found


def epoch(sweep: OpenSweep, trial_id: str) -> None:
    report(sweep, trial_id, 1, forget_loss=2.5, forget_loss_capped=1.25, retain_loss=0.5)


def test_status_of_a_running_sweep(out: Path, running_sweep: OpenSweep) -> None:
    run_trial(running_sweep)
    trial_id, paused = running(running_sweep), running(running_sweep)
    epoch(running_sweep, trial_id)
    running_sweep.log.record(TrialCut(paused, waits=True))
    wait_until(lambda: status_of(out)["left_trials"] == 2)
    found = status_of(out)
    assert (found["state"], found["doing"], found["trials"]) == ("running", "trials", {"finished": 1})
    first, second = found["running"]
    assert (first["trial_id"], first["epoch"], first["forget_loss"], first["waits"]) == (trial_id, 1.0, 2.5, False)
    assert (second["trial_id"], second["epoch"], second["waits"]) == (paused, None, True)
    assert f"  {trial_id} " in (text := invoke("status", out).stdout)
    assert "forget loss capped 1.25, retain loss 0.5" in text


def test_status_of_a_killed_sweep_has_the_command_that_resumes_it(out: Path, sweep: OpenSweep) -> None:
    with ControlServer(out):
        killed = (out / "status.json").read_bytes()
    (out / "status.json").write_bytes(killed)
    trial_id = running(sweep)
    epoch(sweep, trial_id)
    found = status_of(out)
    (shown,) = found["running"]
    assert (found["state"], shown["trial_id"], shown["epochs"]) == ("interrupted", trial_id, SETTINGS.base.epochs)
    assert f"python -m sweeper resume {out}" in invoke("status", out).stdout


def test_status_says_what_is_missing_if_all_trials_have_ended(out: Path, sweep: OpenSweep) -> None:
    with ControlServer(out):
        killed = (out / "status.json").read_bytes()
    (out / "status.json").write_bytes(killed)
    sentence = "all trials have ended, but the measurements after them and the report may be incomplete"
    run_trial(sweep)
    assert sentence not in invoke("status", out).stdout
    while sweep.remaining_trials:
        run_trial(sweep)
    assert sentence in invoke("status", out).stdout


def test_only_a_running_trial_can_be_stopped(out: Path, running_sweep: OpenSweep) -> None:
    ended, trial_id = run_trial(running_sweep), running(running_sweep)
    wait_until(lambda: status_of(out)["doing"] == "trials")
    assert names(refused("stop", out, ended)[0], [ended, "finished"])
    assert names(refused("stop", out, "7")[0], ["7", trial_id])
    assert not [*out.glob(".stop-*")]


def test_no_trial_can_be_stopped_before_the_target_is_prepared(out: Path, sweep: OpenSweep) -> None:
    trial_id = running(sweep)  # by a driver that was killed
    with exclusive(out, RuntimeError()), ControlServer(out):
        assert_names(refused("stop", out, trial_id)[0], out, "try again")
    assert not [*out.glob(".stop-*")]


def test_stop_fails_if_the_sweep_ends_first(out: Path, sweep: OpenSweep) -> None:
    with ThreadPoolExecutor() as pool:
        with exclusive(out, RuntimeError()), ControlServer(out) as server:
            server.follow(sweep)
            trial_id = running(sweep)
            server.poll()
            stopping = pool.submit(invoke, "stop", out, trial_id)
            wait_until(lambda: sweep.log.state.trials[trial_id].stop_requested)
        result = stopping.result(120)
    assert result.exit_code == 1
    assert trial_id in result.stderr
