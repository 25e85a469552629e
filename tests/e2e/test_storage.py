"""A sweep that exchanges files through a bucket has the same tables, even if the driver's machine is lost."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.contract.product import wait_until
from tests.e2e.conftest import Cli, results
from tests.s3_server import BUCKET, CREDENTIALS, s3_server

pytestmark = [pytest.mark.faults, pytest.mark.ray]

GRID = ("--sampler", "grid", "--method", "ngdiff", "--optimizer", "sgd", "--epochs", "20", "--json")
SMALL = ("--batch-size", "5", "--gpus-per-trial", "0", "--max-concurrent", "1")
THREE = ("--lr", "0.05", "--lr", "0.1", "--lr", "1e9")
"""The trial with learning rate 1e9 diverges at once."""


def test_a_sweep_in_a_bucket_equals_a_local_sweep_and_survives_the_loss_of_its_drivers_machine(
    cli: Cli, tmp_path: Path
) -> None:
    """The driver is killed and its folder deleted. The sweep continues from the address alone."""
    local, sweep, elsewhere = cli.new("local"), cli.new("stored"), cli.new("elsewhere")
    grid = (*GRID, *THREE, *SMALL)
    cli.run(*cli.pareto(local, *grid))
    with s3_server() as server:
        away = dataclasses.replace(cli, environment={**cli.environment, **CREDENTIALS})
        checked = away.run("doctor", "--storage", server.uri(f"{BUCKET}/sweeps"))
        assert f"s3://{BUCKET}/sweeps can be read and written from here" in checked.stdout
        process = away.start(*away.pareto(sweep, *grid, "--storage", server.uri(f"{BUCKET}/sweeps")))
        wait_until(lambda: bool(sweep.ids("finished")), process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        away.end_processes(patience=0)
        ended = {row["trial_id"]: row["ended_at"] for row in sweep.trials}
        name = next(key.split("/")[1] for key in server.everything() if key.endswith("/sweep.json"))
        shutil.rmtree(sweep.out)
        done = away.run("resume", server.uri(f"{BUCKET}/sweeps/{name}"), "--out", elsewhere.out, "--json")
        assert "a driver on" in done.stderr
        assert "to see whether that driver is still running" in done.stderr
        assert results(elsewhere) == results(local)
        assert elsewhere.json("pareto.json")["front"] == local.json("pareto.json")["front"]
        mirrored = {row["trial_id"]: row["ended_at"] for row in elsewhere.trials}
        assert sum(mirrored[trial_id] == at for trial_id, at in ended.items()) >= len(ended) - 1
        for member in elsewhere.json("pareto.json")["front"]:
            assert (elsewhere.out / member["checkpoint"] / "model.safetensors").is_file()
        keys = server.everything()
        assert f"sweeps/{name}/report.html" in keys
        assert not [key for key in keys if "checkpoint_0" in key], "saved states of ended trials"
        secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode()
        assert not [key for key in keys if secret in server.content(key)]
        assert not [path for path in elsewhere.out.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_no_trial_is_lost_if_the_bucket_fails_during_the_sweep(cli: Cli) -> None:
    """Trials that fail because of the storage run again, and the results equal those of an undisturbed sweep."""
    local, sweep = cli.new("with-a-disk"), cli.new("without-a-bucket")
    cli.run(*cli.pareto(local, *GRID, *THREE, *SMALL))
    with s3_server() as server:
        away = dataclasses.replace(cli, environment={**cli.environment, **CREDENTIALS})
        process = away.start(*away.pareto(sweep, *GRID, *THREE, *SMALL, "--storage", server.uri(f"{BUCKET}/sweeps")))
        wait_until(lambda: bool(sweep.ids("finished")), process)
        with server.gone():
            _, errors = process.communicate(timeout=300)
        assert process.returncode == 1, errors
        assert "Traceback" not in errors
        assert "the storage refuses or does not answer" in errors
        assert "python -m sweeper resume" in errors
        kept = {row["trial_id"]: row for row in sweep.trials if row["status"] in ("finished", "diverged")}
        assert kept

        away.run("resume", sweep.out, "--json")

        assert {row["trial_id"]: row for row in sweep.trials if row["trial_id"] in kept} == kept
        assert results(sweep) == results(local)
        assert sweep.json("pareto.json")["front"] == local.json("pareto.json")["front"]
        (name,) = {key.split("/")[1] for key in server.everything()} - {"targets"}
        assert server.content(f"sweeps/{name}/trials.csv") == (sweep.out / "trials.csv").read_bytes()
