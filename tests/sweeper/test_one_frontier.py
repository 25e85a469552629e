"""Workers, checkpoints, the search, the display and the analysis have the same frontier, also with a constraint."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from analysis.frontier.frontier import frontier, hypervolume, selectable_models
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import costs_of
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import parse_constraint
from sweeper.store.columns import column_dictionary
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, open_study, outcome, report, running
from trainables.worker.candidates import candidate_folder, read_front

GUESS = 4.0
SMALL = replace(SETTINGS, trials=5, constraints=("utility>=0.5",))


@pytest.mark.parametrize("seed", range(6))
def test_the_front_and_the_front_under_a_constraint_are_the_same_everywhere(out: Path, seed: int) -> None:
    """Values are often missing, equal or duplicated. Trials finish, diverge, or are copies of other trials."""
    draw = random.Random(seed)
    console = Console(file=io.StringIO(), width=200)
    study = open_study(out, trials=5, constraints=tuple(map(parse_constraint, SMALL.constraints)), random_guess=GUESS)
    sweep = bare_sweep(out, SMALL, study=study, console=console)
    criteria = study.archive.criteria
    known: dict[tuple[str, float], tuple[float, float, float | None]] = {}
    for number in range(5):
        trial_id = running(sweep)
        own = []
        for epoch in range(1, 5):
            names = ("forget_loss_capped", "retain_loss", "utility")
            drawn = [draw.choice([None, *values]) for values in ((0, 1, 2, 3, 4), (0, 1, 2, 3, 9), (0.2, 0.5, 0.8))]
            values = {name: float(value) for name, value in zip(names, drawn, strict=True) if value is not None}
            if number == 4 or epoch == 4:  # a trial whose epochs are equal, and a last epoch that is always measured
                values = {"forget_loss_capped": 2.0, "retain_loss": 2.0, "utility": 0.5}
            point = criteria.point(values)
            if criteria.kept([*own, *read_front(out), point])[-1]:
                own.append(point)
                (out / candidate_folder(trial_id, epoch)).mkdir(parents=True)
            if {"forget_loss_capped", "retain_loss"} <= values.keys():
                key = (trial_id, float(epoch))
                known[key] = (values["forget_loss_capped"], values["retain_loss"], values.get("utility"))
            report(sweep, trial_id, epoch, **values)
        status = draw.choice(["finished", "diverged"])
        end_trial(sweep, trial_id, outcome(status, steps=4, epochs_done=4.0, **values))
    sweep.log.flush()
    sweep.checkpoints.reconcile()
    sweep.tables.rewrite(sweep.log.state)
    content = {
        "format": 2,
        "objectives": [item.to_dict() for item in criteria.objectives],
        "columns": column_dictionary(random_guess=GUESS),
        "settings": {"candidates": "all", "constraints": SMALL.constraints},
    }
    (out / "sweep.json").write_text(json.dumps(content))
    table, file = TrialTable.read(out), SweepFile.read(out)

    def by_definition(least: float) -> set[tuple[str, float]]:
        rows = {key: row for key, row in known.items() if least < 0 or (row[2] is not None and row[2] >= least)}
        return {
            key
            for key, (forget, retain, _) in rows.items()
            if not any(f >= forget and r <= retain and (f, r) != (forget, retain) for f, r, _ in rows.values())
        }

    every, constrained = by_definition(-1.0), by_definition(0.5)
    front = frontier(table.models, file.objectives)
    members = front.members
    assert set(zip(members["trial_id"], members["epoch"], strict=True)) == every
    assert study.archive.front == (len(every), pytest.approx(front.hypervolume))
    values_of_constrained = np.array([known[key][:2] for key in sorted(constrained)]).reshape(-1, 2)
    costs = costs_of(values_of_constrained, criteria.objectives)
    assert study.archive.constrained_front == (len(constrained), pytest.approx(hypervolume(costs)))
    assert sweep.checkpoints.folders == {candidate_folder(*key) for key in every | constrained}
    saved = {f"checkpoints/{path.name}" for path in (out / "checkpoints").glob("*-epoch-*")}
    assert saved == sweep.checkpoints.folders
    selectable = selectable_models(table, file).trials
    ends = set(zip(table.finished["trial_id"], table.finished["epochs_done"], strict=True))
    assert set(zip(selectable["trial_id"], selectable["epoch"], strict=True)) == every | constrained | ends
    sweep.display.close()
    shown = sweep.display.summary()
    assert f"{len(every)} epoch" in shown
    assert f"hypervolume {front.hypervolume:.4f}" in shown
    assert f"utility>=0.5: {len(constrained)} epoch" in shown
