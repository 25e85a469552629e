"""A sweep with a user's plug-in: Ray's workers load it, and resume uses the copy from the start of the sweep."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Cli
from tests.toy_plugin import TOY

pytestmark = [pytest.mark.slow, pytest.mark.ray]


def test_a_sweep_with_a_plug_in_and_its_resume(cli: Cli) -> None:
    sweep = cli.new("plugins")
    toy = cli.folder / "toy.py"
    toy.write_text(TOY)
    asked = ("--plugin", toy, "--method", "toy", "--option", "share=0.25", "--epochs", "1", "--metrics", "retain_loss")
    cli.run(*cli.pareto(sweep, *asked, "--trials", "1", "--scheduler", "none", "--sampler", "random"))
    (row,) = sweep.trials
    assert (row["status"], row["method"], row["share"]) == ("finished", "toy", "0.25")
    (entry,) = sweep.json("sweep.json")["plugins"]
    assert entry["parts"] == ["weighting toy"]

    toy.write_text("raise SystemExit('never read again')\n")
    done = cli.run("resume", sweep.out, "--trials", "2")
    assert f"plug-in {toy} has changed since the sweep started" in done.stderr
    assert [row["status"] for row in sweep.trials] == ["finished"] * 2

    (sweep.out / entry["file"]).write_text(TOY + "# changed\n")
    refused = cli.run("resume", sweep.out, "--trials", "3", code=2)
    assert "is not the plug-in with which the sweep started" in refused.stderr
