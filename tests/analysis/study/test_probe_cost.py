"""The cost of AutoLR's probes, compared with a count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from analysis.study.judging import verdicts_data
from analysis.study.lr_study import read_study
from analysis.study.probe_cost import LOGGED, PROBES, STEP_PASSES, probe_runs, with_probes, with_step_passes
from analysis.study.tuning_curve import PROBE_CHARGE
from analysis.tables.columns import Columns
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, Row, trial

PAPER = {"status": "finished", "steps": 30, "auto_lr_every": 10, "auto_lr_start": 1, "auto_lr_probe": "same"} | {
    STEP_PASSES: 6.0
}
SEARCH = PAPER | {"auto_lr_probe": "fresh", "auto_lr_probe_batches": 4}


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        (PAPER, PROBE_CHARGE),  # 3 updates of 2 passes; a step is 6 passes
        (PAPER | {"auto_lr_start": 11}, 1 + 2 * 2 / 180),
        (PAPER | {"auto_lr_start": 31}, 1.0),
        (PAPER | {"auto_lr_probe": "fresh"}, 1 + 3 * 3 / 180),  # also evaluates theta on the fresh batch
        (SEARCH, 1 + 3 * 3 * 4 / 180),
        (SEARCH | {PROBES: 14.0}, 1 + (14 + 3) * 4 / 180),
        (SEARCH | {PROBES: float("nan"), LOGGED: float("nan")}, 1.2),
        (SEARCH | {LOGGED: 1.0}, 1 + 1 * 3 * 4 / 180),  # the updates that were logged, not those of the settings
        (SEARCH | {STEP_PASSES: 3.0}, 1.4),  # gradient ascent: a probe is a third of a step, not a sixth
        (SEARCH | {STEP_PASSES: float("nan")}, 1.4),  # unknown: overestimated
        (SEARCH | {"status": "diverged"}, None),
        (SEARCH | {"auto_lr_every": ""}, None),
        (SEARCH | {"steps": float("nan")}, None),
    ],
)
def test_the_cost_is_the_forward_passes_of_the_probes_over_those_of_a_step(fields: Row, runs: float | None) -> None:
    assert probe_runs(pd.Series(fields, dtype=object)) == (None if runs is None else pytest.approx(runs, abs=5e-4))


def test_the_probes_of_a_trial_are_counted_once_also_after_a_restart(make_sweep: MakeSweep) -> None:
    table = TrialTable.read(make_sweep([trial("a", 1.0, 1.0), trial("b", 1.0, 1.0)]))
    updates = pd.DataFrame({"trial_id": ["a", "a", "a"], "step": [1, 11, 11], "probes": [2, 8, 4]})
    counted = with_probes(table, updates)
    assert counted.trials[PROBES].tolist() == pytest.approx([6, float("nan")], nan_ok=True)
    assert counted.trials[LOGGED].tolist() == pytest.approx([2, float("nan")], nan_ok=True)
    assert with_probes(table, updates.drop(columns="probes")) is table


def test_a_step_reads_the_batches_whose_training_loss_its_method_reports() -> None:
    trials = pd.DataFrame({"trial_id": ["both", "ascent", "silent"]})
    history = pd.DataFrame(
        {
            "trial_id": ["both", "both", "ascent"],
            "train_forget_loss": [1.0, 2.0, 1.0],
            "train_retain_loss": [1.0, 2.0, None],
        }
    )
    found = with_step_passes(TrialTable(trials, history, Columns())).trials[STEP_PASSES].tolist()
    assert found == pytest.approx([6.0, 3.0, float("nan")], nan_ok=True)


@pytest.mark.parametrize(("seconds", "charge"), [((9.0, 10.0), (1.75, False)), ((20.0, 10.0), (2.0, True))])
def test_a_study_reads_the_log_and_charges_the_probes_at_least(
    tmp_path: Path, make_sweep: MakeSweep, seconds: Sequence[float], charge: tuple[float, bool]
) -> None:
    """30 steps are 180 passes. 42 probes and 3 evaluations at theta, with 3 batches each, are 135 passes."""
    out = make_sweep([])
    fields = {"auto_lr_every": 10, "auto_lr_probe_batches": 3}
    rows = [
        trial(name, 5.0, 1.0, auto_lr=policy, train_seconds=taken) | fields
        for name, policy, taken in zip(("00000", "00001"), ("on", "off"), seconds, strict=True)
    ]
    columns = [*(name for name in rows[0] if name not in fields), *fields]
    order = sorted(columns, key=lambda name: name not in {*fields, "trial_id", "spec_hash"})
    pd.DataFrame(rows)[order].assign(error="").to_csv(out / "trials.csv", index=False)
    pd.DataFrame(
        [{"trial_id": name, "step": 10, "train_forget_loss": 1, "train_retain_loss": 1} for name in ("00000", "00001")]
    ).to_csv(out / "history.csv", index=False)
    (out / "auto_lr.csv").write_text("trial_id,step,probes\n00000,1,20\n00000,11,12\n00000,21,10\n")
    (verdict,) = read_study([out]).verdicts
    assert (verdict.charge, verdict.charge_measured) == charge
    assert verdicts_data(read_study([out]).grid)[0].charge == charge[0]
