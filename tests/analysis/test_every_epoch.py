"""A sweep of which every epoch counts: what the frontier, pareto.json, pick and the page say of (trial, epoch)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis.figures.pareto import pareto_data, scores_data
from analysis.frontier.anytime import anytime_data
from analysis.frontier.frontier import frontier, takeable
from analysis.frontier.pick import CONSTRAINT, KNEE, NothingQualifies, pick
from analysis.page.choice import choose
from analysis.page.report import write_report
from analysis.tables.sources import read_sources
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
"""Of the epochs on the front, those that are not the end of a finished trial."""
FRONT = {("00000", 1.0), ("00000", 2.0), ("00000", 3.0), ("00001", 1.0), ("00002", 1.0)}

MakeEpochs = Callable[..., Path]


@pytest.fixture
def make_epochs(make_sweep: MakeSweep) -> MakeEpochs:
    """Two finished trials and one that diverged after its first epoch; ``measured`` has metrics by (trial, epoch)."""

    def make(name: str = "sweep", **measured: dict[tuple[str, int], float]) -> Path:
        rows = [
            trial("00000", *EPOCHS["00000"][-1], verbmem=0.05, utility=0.2, method="gdiff", c=0.5),
            trial("00001", *EPOCHS["00001"][-1], verbmem=0.08, utility=0.3),
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
                    ends = epoch == 3
                    metrics |= {name: rows[int(trial_id)][name] for name in ("verbmem", "utility") if ends}
                    writer.writerow(
                        {"trial_id": trial_id, "epoch": float(epoch), "step": 10 * epoch, **losses, **metrics}
                        | {"checkpoint": place}
                    )
        return out

    return make


def candidates(rows: list[dict[str, object]]) -> set[tuple[object, object]]:
    return {(row["trial_id"], row["epoch"]) for row in rows}


def test_the_frontier_is_over_all_epochs_also_of_a_trial_that_diverged_later(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    table, sweep = tables_of(out)
    front = frontier(table.models, sweep.objectives)
    assert set(zip(front.trial_ids, front.members["epoch"], strict=True)) == FRONT
    ends = frontier(table, sweep.objectives)
    assert set(ends.trial_ids) == {"00000"}
    assert front.hypervolume > ends.hypervolume


def test_an_epoch_has_its_trials_settings_its_own_values_and_a_checkpoint_that_is_there(
    make_epochs: MakeEpochs,
) -> None:
    models = TrialTable.read(make_epochs()).models.trials.set_index(["trial_id", "epoch"])
    second = models.loc[("00000", 2.0)]
    assert (second["method"], second["c"], second["steps"], second["retain_loss"]) == ("gdiff", 0.5, 20, 0.3)
    assert np.isnan(second["verbmem"])
    assert second["checkpoint"] == "checkpoints/00000-epoch-2"
    assert models.loc[("00001", 2.0), "checkpoint"] == ""  # deleted since its row was written
    assert models.loc[("00001", 3.0), "checkpoint"] == "checkpoints/00001"
    assert models.loc[("00001", 3.0), "utility"] == 0.3


def test_pareto_json_names_each_epoch_with_its_step_and_checkpoint(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    write_report(out)
    content = json.loads((out / "pareto.json").read_text())
    assert candidates(content["front"]) == FRONT
    (member,) = [row for row in content["front"] if (row["trial_id"], row["epoch"]) == ("00000", 2)]
    assert (member["step"], member["checkpoint"]) == (20, "checkpoints/00000-epoch-2")
    assert member["objectives"] == {"forget_loss": 3.0, "retain_loss": 0.3}
    assert member["method"] == "gdiff"
    (end,) = [row for row in content["front"] if (row["trial_id"], row["epoch"]) == ("00000", 3)]
    assert end["checkpoint"] == "checkpoints/00000"
    before = (out / "pareto.json").read_bytes()
    write_report(out)
    assert (out / "pareto.json").read_bytes() == before


def test_without_candidates_the_frontier_is_over_the_ends_and_tells_their_epochs(
    make_epochs: MakeEpochs,
) -> None:
    out = make_epochs()
    (out / "candidates.csv").unlink()
    write_report(out)
    content = json.loads((out / "pareto.json").read_text())
    assert candidates(content["front"]) == {("00000", 3)}
    assert "after epoch" not in (out / "report.html").read_text()


def test_the_page_names_the_epoch_to_take_and_every_epoch_of_the_frontier(make_epochs: MakeEpochs) -> None:
    out = make_epochs(verbmem={("00001", 1): 0.06}, utility={("00001", 1): 0.75}, truth_ratio={("00001", 1): 0.9})
    write_report(out)
    page = (out / "report.html").read_text()
    answer = json.loads((out / "pareto.json").read_text())["answer"]
    assert answer["headline"].startswith("Take trial 00001 after epoch 1: ")
    assert (answer["trial_id"], answer["epoch"], answer["checkpoint"]) == ("00001", 1, "checkpoints/00001-epoch-1")
    assert page.count('<th scope="col" class="n">epoch</th>') == 1
    assert "Of 2 of these 5 more than the losses was measured" in page
    for place in ("checkpoints/00000-epoch-2", "checkpoints/00002-epoch-1"):
        assert f"<code>{place}</code>" in page


def test_pick_takes_an_epoch_with_its_checkpoint(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    table, sweep = tables_of(out)
    found = pick(table, sweep, rule=KNEE)
    distances = {
        (trial_id, epoch): np.hypot(1 - min(forget, 8.0) / 8.0, retain / 8.0)
        for trial_id, epochs in EPOCHS.items()
        for epoch, (forget, retain) in enumerate(epochs, start=1)
    }
    assert (found.row["trial_id"], found.row["epoch"]) == min(distances, key=lambda key: distances[key])
    assert found.eligible == len(takeable(table, sweep.objectives).trials) - 1  # one has hardly begun
    chosen, _ = choose(table, sweep)
    assert chosen.row["checkpoint"]


def test_an_epoch_that_forgot_nothing_is_on_the_frontier_but_is_not_picked(make_epochs: MakeEpochs) -> None:
    """Of all epochs the first one keeps most: the best utility within any limit on the retain loss is its."""
    utility = {("00000", 1): 0.8, ("00000", 2): 0.7, ("00001", 1): 0.5}
    out = make_epochs(utility=utility, verbmem=dict.fromkeys(utility, 0.5))
    table, sweep = tables_of(out)
    assert ("00000", 1.0) in FRONT
    limits = [Constraint("retain_loss", "<=", 0.5)]
    found = pick(table, sweep, rule=CONSTRAINT, limits=limits)
    assert (found.row["trial_id"], found.row["epoch"]) == ("00000", 2.0)
    # Where nothing else is within the limits it is what there is.
    limits = [Constraint("retain_loss", "<=", 0.1)]
    found = pick(table, sweep, rule=CONSTRAINT, limits=limits)
    assert (found.row["trial_id"], found.row["epoch"]) == ("00000", 1.0)


def test_what_was_not_measured_of_an_epoch_is_within_no_limit(make_epochs: MakeEpochs) -> None:
    out = make_epochs(verbmem={("00001", 1): 0.07}, utility={("00001", 1): 0.6})
    table, sweep = tables_of(out)
    limits = [Constraint("verbmem", "<=", 0.09)]
    found = pick(table, sweep, rule=CONSTRAINT, limits=limits)
    assert (found.row["trial_id"], found.row["epoch"]) == ("00001", 1.0)
    with pytest.raises(NothingQualifies, match=r"no epoch has verbmem at most 0\.01"):
        pick(
            *(table, sweep),
            rule=CONSTRAINT,
            limits=[Constraint("verbmem", "<=", 0.01)],
        )


def test_the_figure_marks_the_epochs_of_the_frontier_and_draws_their_trials_paths(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    data = pareto_data(*tables_of(out))
    points = [point for series in data.methods for point in series.points]
    assert {(point.trial_id, point.epoch) for point in points if point.on_front} == FRONT
    assert {(point.trial_id, point.epoch) for point in points if not point.on_front} == {("00001", 3.0)}
    assert sorted(map(len, data.paths)) == [3, 3]
    assert "5 epochs on the frontier" in data.subtitle


def test_a_trial_without_the_scores_of_a_figure_is_not_said_to_be_drawn_there(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    table, sweep = tables_of(out)
    scores = scores_data(table, sweep)
    assert scores is not None
    assert "1 diverged (00002), drawn where it ended." in pareto_data(table, sweep).notes
    assert "1 diverged (00002), not on the frontier." in scores.notes


def test_the_volume_over_compute_ends_where_the_frontiers_volume_is(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    table, sweep = tables_of(out)
    curve = anytime_data(table, sweep.objectives)
    assert len(curve.hypervolume) == len(EPOCHS)
    assert curve.hypervolume[-1] == pytest.approx(frontier(table.models, sweep.objectives).hypervolume, abs=1e-12)
    first = table.of(table.trials[:1])
    assert curve.hypervolume[0] == pytest.approx(frontier(first.models, sweep.objectives).hypervolume, abs=1e-12)


def test_several_sweeps_keep_their_epochs_apart(make_epochs: MakeEpochs, tmp_path: Path) -> None:
    paths = [make_epochs("one"), make_epochs("two")]
    read = read_sources(paths, out=tmp_path / "together")
    front = frontier(read.table.models, read.sweep.objectives)
    assert len(front.members) == 2 * len(FRONT)
    assert "../one/checkpoints/00000-epoch-2" in set(front.members["checkpoint"])


def test_a_report_while_the_sweep_runs_has_the_epochs_of_trials_that_have_ended(make_epochs: MakeEpochs) -> None:
    out = make_epochs()
    with (out / "candidates.csv").open("a") as file:
        file.write("00003,1.0,10,7.9,7.9,0.01,,,,checkpoints/00003-epoch-1\n00003,2.0,20,7.9")
    table = TrialTable.read(out)
    assert set(table.models.trials["trial_id"]) == {"00000", "00001", "00002"}
