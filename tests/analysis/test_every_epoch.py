"""A sweep in which every epoch of a trial is a model: the frontier, pareto.json, pick and the page."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.figures.pareto import pareto_figure
from analysis.frontier.pick import CONSTRAINT, NothingQualifies, pick
from analysis.report.report import write_report
from analysis.tables.note import note
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import Constraint
from tests.analysis.conftest import MakeSweep, tables_of, trial

LOSSES = ("forget_loss", "forget_loss_capped", "retain_loss")
COLUMNS = ("trial_id", "epoch", "step", *LOSSES, "verbmem", "utility", "truth_ratio", "checkpoint")
EPOCHS = {
    # forget, retain; the model before unlearning has 0.04 and 0.05
    "00000": [(0.05, 0.02), (3.0, 0.3), (6.0, 2.0)],
    "00001": [(4.0, 0.4), (5.0, 3.0), (5.5, 2.5)],
    "00002": [(7.0, 3.5)],
}
KEPT = {("00000", 1), ("00000", 2), ("00001", 1), ("00002", 1)}
"""The epochs on the front that are not the end of a finished trial."""
FRONT = {("00000", 1.0), ("00000", 2.0), ("00000", 3.0), ("00001", 1.0), ("00002", 1.0)}

MakeEpochs = Callable[..., Path]


@pytest.fixture
def make_epochs(make_sweep: MakeSweep) -> MakeEpochs:
    """Write two finished trials and one that diverged after epoch 1; ``measured`` has metrics by trial and epoch."""

    def make(name: str = "sweep", **measured: dict[tuple[str, int], float]) -> Path:
        rows = [
            trial("00000", *EPOCHS["00000"][-1], verbmem=0.05, utility=0.2, method="gdiff", c=0.5),
            trial("00001", *EPOCHS["00001"][-1], verbmem=0.08, utility=0.3, interpolation=0.9),
            trial("00002", *EPOCHS["00002"][-1], status="diverged", error="at step 17", checkpoint=None, steps=17),
        ]
        out: Path = make_sweep(rows, name=name)
        with (out / "candidates.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for trial_id, epochs in EPOCHS.items():
                for epoch, (forget, retain) in enumerate(epochs, start=1):
                    place = f"checkpoints/{trial_id}-epoch-{epoch}"
                    if (trial_id, epoch) in KEPT:
                        (out / place).mkdir(parents=True)
                        (out / place / "model.safetensors").write_text(f"{trial_id} after {epoch}")
                    losses = dict(zip(LOSSES, (forget, min(forget, 8.0), retain), strict=True))
                    metrics = {column: values.get((trial_id, epoch), "") for column, values in measured.items()}
                    metrics |= {name: rows[int(trial_id)][name] for name in ("verbmem", "utility") if epoch == 3}
                    row = {"trial_id": trial_id, "epoch": float(epoch), "step": 10 * epoch, "checkpoint": place}
                    writer.writerow(row | losses | metrics)
        return out

    return make


def reported(out: Path) -> tuple[dict[str, Any], dict[tuple[str, float], dict[str, Any]]]:
    """Return the answer in pareto.json, and the frontier keyed by trial and epoch."""
    write_report(out)
    content = json.loads((out / "pareto.json").read_text())
    return content["answer"], {(row["trial_id"], row["epoch"]): row for row in content["front"]}


def test_an_epoch_has_its_own_values_and_an_existing_checkpoint(make_epochs: MakeEpochs) -> None:
    models = TrialTable.read(make_epochs()).models.trials.set_index(["trial_id", "epoch"])
    assert np.isnan(models.loc[("00000", 2.0), "verbmem"])
    assert models.loc[("00001", 2.0), "checkpoint"] == ""  # deleted since its row was written
    assert models.loc[("00001", 3.0), ["checkpoint", "utility"]].to_list() == ["checkpoints/00001", 0.3]
    # Only the last epoch of a trial is interpolated.
    assert models["interpolation"].dropna().to_dict() == {("00001", 3.0): 0.9}


def test_pareto_json_and_the_page_name_each_epoch_with_its_step_and_checkpoint(make_epochs: MakeEpochs) -> None:
    out = make_epochs(verbmem={("00001", 1): 0.06}, utility={("00001", 1): 0.75}, truth_ratio={("00001", 1): 0.9})
    answer, front = reported(out)
    assert set(front) == FRONT
    member = front["00000", 2]
    assert (member["step"], member["checkpoint"], member["method"]) == (20, "checkpoints/00000-epoch-2", "gdiff")
    assert member["objectives"] == {"forget_loss": 3.0, "retain_loss": 0.3}
    assert front["00000", 3]["checkpoint"] == "checkpoints/00000"
    assert (answer["trial_id"], answer["epoch"], answer["checkpoint"]) == ("00001", 1, "checkpoints/00001-epoch-1")
    assert answer["recommended"]
    assert "trial 00001 after epoch 1" in answer["headline"]
    page = (out / "report.html").read_text()
    assert page.count('<th scope="col" class="n">epoch</th>') == 1
    for place in ("checkpoints/00000-epoch-2", "checkpoints/00002-epoch-1"):
        assert f"<code>{place}</code>" in page


@pytest.mark.usefixtures("blank_figures")
def test_a_headline_about_some_epochs_calls_them_measured(make_epochs: MakeEpochs) -> None:
    """Utility was measured for the last epochs of two trials, of seven evaluated epochs."""
    answer, _ = reported(make_epochs())
    assert re.search(r"2 measured epochs .*utility is 0\.3 ", answer["headline"])
    assert answer["measured"] == {"epochs": 2, "of": 7}


def test_pick_is_within_the_limit(make_epochs: MakeEpochs) -> None:
    """The first epoch of trial 00000 forgot nothing: it is taken if it is the only one within the limit."""
    tables = tables_of(make_epochs(verbmem={("00000", 2): 0.5, ("00001", 1): 0.07}))
    limits = (("retain_loss", 0.5), ("retain_loss", 0.1), ("verbmem", 0.07))
    found = [pick(*tables, rule=CONSTRAINT, limits=[Constraint(name, "<=", bound)]).row for name, bound in limits]
    assert [(row["trial_id"], row["epoch"]) for row in found] == [("00001", 1.0), ("00000", 1.0), ("00000", 3.0)]
    with pytest.raises(NothingQualifies, match=r"epoch.*verbmem.*0\.01"):
        pick(*tables, rule=CONSTRAINT, limits=[Constraint("verbmem", "<=", 0.01)])


def test_the_figure_marks_the_epochs_of_the_frontier_and_draws_their_trials_paths(make_epochs: MakeEpochs) -> None:
    table, sweep = tables_of(make_epochs())
    data = pareto_figure(table, sweep)
    epochs = table.models.trials
    names = dict(zip(epochs["forget_loss_capped"], zip(epochs["trial_id"], epochs["epoch"], strict=True), strict=True))
    lines = data.panels[0].lines
    assert {names[x] for line in lines if line.style == "large" for x in line.xs} == FRONT
    assert {names[x] for line in lines if line.style == "pale" for x in line.xs} == {("00001", 3.0)}
    assert [len(line.xs) for line in lines if line.style == "thin"] == [3, 3]
    assert data.subtitle is not None
    facts = dict(data.subtitle.facts)
    assert (facts["members"], facts["every_epoch"]) == (5, True)
    assert data.notes[0] == note("unfinished_trials", status="diverged", trials=("00002",), drawn=True)


def test_epochs_of_running_trials_do_not_count(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    with (out / "candidates.csv").open("a") as file:
        file.write("00003,1.0,10,7.9,7.9,0.01,,,,checkpoints/00003-epoch-1\n00003,2.0,20,7.9")
    assert set(TrialTable.read(out).models.trials["trial_id"]) == {"00000", "00001", "00002"}
