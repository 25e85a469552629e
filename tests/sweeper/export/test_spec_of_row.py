"""Reconstruct the spec from a row of trials.csv, and the command of one run from the spec."""

from __future__ import annotations

import csv
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.tables.trial_table import TrialTable
from sweeper.export.spec_of_row import spec_of_row, unlearn_command
from sweeper.store.columns import TRIAL_COLUMNS
from tests.sweeper.cli.conftest import resolved
from trainables import plugins
from trainables.spec import TrialSpec

SPECS = (
    TrialSpec(target_key="7e5a", options=(("c", 0.1 + 0.2),)),
    TrialSpec(method="npo+ngdiff", options=(("beta", 0.5),), lr=1.23456789e-5, epochs=3, seed=2, limit=40),
    TrialSpec(method="ngdiff", auto_lr="curvature", auto_lr_log_forget=False, lora_rank=4),
    TrialSpec(method="ngdiff", optimizer="sgd", momentum=0.9, gradient_checkpointing=True, max_steps=7),
    TrialSpec(method="ngdiff", metrics=("verbmem", "utility"), metrics_every=2, max_grad_norm=1.0, target_epochs=2),
    TrialSpec(model="tiny-resnet", dataset="digits", method="ngdiff", forget_class="3", batch_size=16),
)


@pytest.fixture
def rows(golden: Path) -> list[dict[str, object]]:
    """The rows of all SPECS, read back from one table."""
    with (golden / "trials.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, TRIAL_COLUMNS)
        writer.writeheader()
        for number, spec in enumerate(SPECS):
            row = {"trial_id": f"{number:05d}", "spec_hash": spec.spec_hash, **spec.row(), "status": "finished"}
            writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return [dict(row) for _, row in TrialTable.read(golden).trials.iterrows()]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_a_row_gives_the_spec_and_the_command_gives_the_same_run(rows: list[dict[str, object]], number: int) -> None:
    spec = spec_of_row(rows[number])
    assert spec.spec_hash == SPECS[number].spec_hash
    again = resolved(*shlex.split(unlearn_command(spec, out="new"))[3:]).base
    assert replace(again, target_key=spec.target_key).spec_hash == spec.spec_hash
    for name in ("target_epochs", "auto_lr_log_forget", "metrics"):  # some of them are not in the hash
        assert getattr(again, name) == getattr(spec, name)


def test_the_command_has_the_plug_ins_that_the_run_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = plugins.Plugin(name="toy.py", path="/home/me/my toy.py", source="", parts=())
    monkeypatch.setattr(plugins, "_active", [mine])
    words = shlex.split(unlearn_command(SPECS[0]))
    assert [after for word, after in pairwise(words) if word == "--plugin"] == ["/home/me/my toy.py"]
