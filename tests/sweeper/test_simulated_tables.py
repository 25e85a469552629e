"""Tables a search is replayed on: sweeps and CSVs, read; and ``simulate`` on the command line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.cli import main
from sweeper.folder import begin
from sweeper.search import SweepStudy
from sweeper.settings import SweepSettings
from sweeper.simulation.read_table import read_tables
from sweeper.simulation.replay import Arm, replay
from sweeper.simulation.table import TableError, Yardstick
from sweeper.trade_off import axes, parse_objectives
from trainables.spec import TrialSpec

METRICS = parse_objectives("verbmem:min,utility:max")
LOSSES = parse_objectives("forget_loss:max,retain_loss:min")
GUESS = math.log(100.0)
SPACE = Space((Number("lr", 1e-4, 1e-2, log=True, grid=(1e-4, 1e-3, 1e-2)),), {"method": "ngdiff"})


def sweep(out: Path, *, sampler: str, trials: int) -> None:
    """A sweep's folder without a model: its study is asked and told as a sweep's with one worker."""
    settings = SweepSettings(
        name="made", base=TrialSpec(epochs=3), space=replace(SPACE, constants={}), trials=trials, sampler=sampler,
        objectives="verbmem:min,utility:max",
    )  # fmt: skip
    begin(settings, out)
    content = json.loads((out / "sweep.json").read_text())
    (out / "sweep.json").write_text(json.dumps(content | {"random_guess_loss": GUESS}))
    study = SweepStudy(
        optuna.storages.InMemoryStorage(), space=settings.space, objectives=axes(METRICS, GUESS), sampler=sampler,
        trials=trials, seeds=(0,), seed=0,
    )  # fmt: skip
    rows, epochs = [], []
    while (proposal := study.ask()) is not None:
        rate = math.log10(proposal.config["lr"])
        course = [
            {"trial_id": proposal.trial_id, "epoch": n, "verbmem": abs(rate + 3) / (n + 1), "utility": -rate / 4 / n}
            for n in (1, 2, 3)
        ]
        row = {**course[-1], "status": "finished", "ended_at": float(len(rows)), "seed": 0, **proposal.config}
        study.tell(proposal.trial_id, row, course)
        rows.append(row)
        epochs += course
    for name, table in (("trials", rows), ("candidates", epochs)):
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random"])
def test_a_sweep_replayed_with_its_own_settings_decides_as_it_did(tmp_path, sampler):
    sweep(tmp_path, sampler=sampler, trials=20)
    (table,) = read_tables(tmp_path, METRICS)
    course = replay(table, Arm(sampler=sampler, trials=20), seed=0)
    assert course.order == tuple(f"{number:05d}" for number in range(20))
    assert course.distance == 0.0
    assert course.spent == 60


COLUMNS = ("method", "c", "lr", "seed", "epoch", "forget_loss_capped", "retain_loss", "random_guess")


def text(rows) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([COLUMNS, *rows])
    return buffer.getvalue()


ROWS = [
    (method, c, lr, seed, epoch, epoch * lr * 100, lr * 10, GUESS)
    for seed in (0, 1)
    for method, c in (("gdiff", 0.5), ("gdiff", 0.9), ("ngdiff", ""))
    for lr in (1e-3, 1e-2)
    for epoch in (2, 1)
]


def test_a_csv_is_a_table_per_seed_with_the_space_its_rows_are_of(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text(ROWS))
    tables = read_tables(path, LOSSES)
    assert [(table.seed, len(table.runs), table.all_epochs) for table in tables] == [(0, 6, 12), (1, 6, 12)]
    method, c, lr = tables[0].space.parameters
    assert method == Choice("method", ("gdiff", "ngdiff"))
    assert (c.low, c.high, c.log_to_one, c.when, c.grid) == (0.5, 0.9, True, {"method": ("gdiff",)}, (0.5, 0.9))
    assert (lr.low, lr.high, lr.log) == (1e-3, 1e-2, True)
    assert [row["epoch"] for row in tables[0].runs[0].epochs] == ["1", "2"]
    assert [item.high for item in tables[0].objectives] == pytest.approx([GUESS, GUESS])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_table_may_be_compressed(tmp_path, suffix, pack):
    plain, packed = tmp_path / "table.csv", tmp_path / f"table.csv{suffix}"
    plain.write_text(text(ROWS))
    packed.write_bytes(pack(plain.read_bytes()))
    assert read_tables(packed, LOSSES) == read_tables(plain, LOSSES)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(TableError, match="cannot read"):
        read_tables(packed, LOSSES)


def test_the_shipped_tables_are_whole_grids_of_real_runs():
    folder = Path(__file__).parents[2] / "docs" / "data"
    paths = sorted(folder.glob("tabulated_*.csv.xz"))
    assert paths
    for path in paths:
        for table in read_tables(path, LOSSES):
            assert table.epochs == 10
            assert {run.config["method"] for run in table.runs} == {"gdiff", "ngdiff", "npo+ngdiff", "pcgrad"}
            assert 0.5 < Yardstick.of(table).volume < 1.0
            assert Yardstick.of(table, axes(METRICS, GUESS)).volume > 0.5


def simulate(*arguments: object):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_simulate_tells_every_arm_and_writes_its_curves(tmp_path):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text(text(ROWS))
    told = simulate(path, "--seeds", 3, "--scheduler", "none", "--candidates", "all", "--candidates", "last")
    assert told.exit_code == 0, told.output
    assert "table: 6 runs, 12 epochs" in told.output
    for arm in ("tpe", "random", "tpe, last epochs", "random, last epochs"):
        assert any(line.startswith(f"{arm} ") for line in told.output.splitlines())
    told = simulate(path, "--seeds", 3, "--sampler", "grid", "--workers", 2, "--json", "--out", out)
    content = json.loads(told.stdout)
    assert [arm["arm"] for arm in content["arms"]] == ["grid", "grid + moasha"]
    whole = content["arms"][0]["at"][-1]
    assert whole == {
        "epochs": 12, "hypervolume_median": 1.0, "hypervolume_worst": 1.0, "epsilon_median": 0.0, "epsilon_worst": 0.0,
    }  # fmt: skip
    assert json.loads((out / "simulation.json").read_text()) == content
    with (out / "simulation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["hypervolume"]) for row in rows if row["arm"] == "grid" and row["epochs"] == "12"] == [1.0] * 3
    assert (out / "simulation.png").stat().st_size > 1000
    assert (out / "simulation.svg").is_file()


def test_simulate_replays_a_sweeps_folder(tmp_path):
    sweep(tmp_path / "sweep", sampler="random", trials=5)
    told = simulate(tmp_path / "sweep", "--seeds", 2, "--sampler", "tpe", "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["objectives"] == ["verbmem:min", "utility:max"]


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    told = simulate(
        tmp_path / "gone.csv", "--sampler", "guess", "--scheduler", "hyperband", "--candidates", "best", "--grace", 0,
        "--reduction", 1, "--seeds", 0, "--epoch-budget", "much", "--objectives", "beauty:max", "--stopping", "now",
    )  # fmt: skip
    assert told.exit_code == 2
    for part in (
        "there is no table", "unknown sampler 'guess'", "unknown scheduler 'hyperband'", "unknown candidates 'best'",
        "--grace must be at least 1, got 0", "--reduction must be at least 2, got 1", "--seeds must be at least 1",
        "--epoch-budget must be a whole number, got 'much'", "unknown objective 'beauty'", "unknown stopping 'now'",
    ):  # fmt: skip
        assert part in told.output
    assert "Traceback" not in told.output


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", (), "has no rows"),
        ("method,lr\nngdiff,1\n", (), "has no column epoch: the columns found are method, lr; expected"),
        ("method,epoch\nngdiff,0\n", (), "line 2: epoch is '0'"),
        ("method,epoch\nngdiff\n", (), "line 2: it has not as many cells"),
        (text(ROWS), ("--objectives", "verbmem:min,utility:max"), "has no values of verbmem and utility"),
        (text(ROWS).replace(",random_guess", ",guess"), (), "has no column random_guess"),
        (text(ROWS[:2]), (), "has 1 run of seed 0"),
        (text(ROWS), ("--table-seed", 7), "--table-seed 7"),
        (text(ROWS), ("--scheduler", "moasha", "--grace", 2), "--grace 2: the first rung must lie below the 2 epochs"),
        (text([*ROWS, *([*row[:-1], 3.0] for row in ROWS)]), (), "several problems"),
    ],
)
def test_a_table_that_cannot_be_replayed_is_refused_in_a_sentence(tmp_path, content, arguments, message):
    path = tmp_path / "table.csv"
    path.write_text(content)
    told = simulate(path, "--seeds", 1, *arguments)
    assert (told.exit_code, "Traceback" in told.output) == (2, False), told.output
    assert message in told.output


def test_a_space_without_points_has_no_grid_to_replay(tmp_path):
    sweep(tmp_path / "sweep", sampler="random", trials=3)
    content = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    content["settings"]["space"]["parameters"][0]["grid"] = []
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(content))
    told = simulate(tmp_path / "sweep", "--sampler", "grid", "--seeds", 1)
    assert told.exit_code == 2
    assert "--sampler grid: a grid search cannot visit every value" in told.output
