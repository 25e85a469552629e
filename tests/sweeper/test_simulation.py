"""A search replayed on a table finds what the table has, for the epochs it says, by the study's own decisions."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from click.testing import CliRunner

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.cli import main
from sweeper.folder import begin
from sweeper.search import SweepStudy
from sweeper.settings import SweepSettings
from sweeper.simulation.progress import progress
from sweeper.simulation.read_table import read_tables
from sweeper.simulation.replay import Arm, replay
from sweeper.simulation.table import Run, Table, TableError, Yardstick
from sweeper.trade_off import axes, parse_objectives
from trainables.spec import TrialSpec

METRICS = parse_objectives("verbmem:min,utility:max")
LOSSES = parse_objectives("forget_loss:max,retain_loss:min")
GUESS = math.log(100.0)
SPACE = Space((Number("lr", 1e-4, 1e-2, log=True, grid=(1e-4, 1e-3, 1e-2)),), {"method": "ngdiff"})
POINTS = {1e-4: ((0.9, 0.9), (0.5, 0.9)), 1e-3: ((0.6, 0.8), (0.1, 0.5)), 1e-2: ((0.0, 0.1), (0.0, 0.0))}
"""By rate the (verbmem, utility) of two epochs; (0.5, 0.9), (0.1, 0.5) and (0.0, 0.1) are the front."""
VOLUME = 0.5 * 0.9 + 0.4 * 0.5 + 0.1 * 0.1


def made(points=POINTS, status="finished") -> Table:
    runs = [
        Run(
            f"{lr:g}",
            {"method": "ngdiff", "lr": lr},
            status,
            tuple({"epoch": epoch, "verbmem": v, "utility": u} for epoch, (v, u) in enumerate(course, 1)),
        )
        for lr, course in points.items()
    ]
    return Table(SPACE, axes(METRICS, GUESS), tuple(runs))


def test_the_whole_table_has_its_whole_front():
    table = made()
    yardstick = Yardstick.of(table)
    assert yardstick.volume == pytest.approx(VOLUME)
    assert len(yardstick.front) == 3
    course = replay(table, Arm(sampler="grid", trials=3), seed=0)
    curves = progress(course, yardstick, epochs=6)
    # A grid visits the rates in their order: after two epochs it has the first run, after four two of them.
    alone, two = 0.5 * 0.9, 0.5 * 0.9 + 0.4 * 0.5
    expected = [0.0, 0.1 * 0.9, alone, alone, two, VOLUME, VOLUME]
    expected[3] = alone  # (0.6, 0.8) adds nothing
    assert curves.share * VOLUME == pytest.approx(expected)
    # What the front's farthest point lacks: 0.9 of (0.0, 0.1), then 0.5 of (0.0, 0.1), then 0.1 of it, then nothing.
    assert curves.epsilon == pytest.approx([1.0, 0.9, 0.5, 0.5, 0.1, 0.0, 0.0])
    assert curves.reached == 5
    assert (course.spent, course.trials, course.stopped, course.distance) == (6, 3, 0, 0.0)


def test_last_epochs_count_when_a_trial_has_finished():
    course = replay(made(), Arm(sampler="grid", trials=3, candidates="last"), seed=0)
    assert [(spent, row["verbmem"]) for spent, row in course.found] == [(2, 0.5), (4, 0.1), (6, 0.0)]
    assert progress(course, Yardstick.of(made()), epochs=6).share[1] == 0.0


def test_workers_take_turns_and_spend_the_same():
    course = replay(made(), Arm(sampler="grid", trials=3, workers=2), seed=0)
    assert [row["verbmem"] for _, row in course.found] == [0.9, 0.6, 0.5, 0.1, 0.0, 0.0]
    assert course.spent == 6


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_no_epoch_is_spent_beyond_the_budget(workers):
    course = replay(made(), Arm(sampler="random", trials=3, epoch_budget=3, workers=workers), seed=0)
    assert course.spent == 3


def test_a_diverged_run_costs_its_epochs_and_gives_no_more_than_it_measured():
    table = made()
    diverged = replace(table.runs[2], status="diverged", epochs=({"epoch": 1, "verbmem": "", "utility": ""},))
    table = Table(SPACE, table.objectives, (*table.runs[:2], diverged))
    course = replay(table, Arm(sampler="grid", trials=3), seed=0)
    assert course.spent == 5
    assert progress(course, Yardstick.of(table), epochs=5).share[-1] == pytest.approx(1.0)
    assert Yardstick.of(table).volume == pytest.approx(0.5 * 0.9 + 0.4 * 0.5)


@pytest.mark.parametrize("stopping", ["stop", "pause"])
def test_the_scheduler_ends_what_another_trial_beats(stopping):
    beaten = {1e-4: ((0.1, 0.9),) * 4, 1e-3: ((0.5, 0.5),) * 4, 1e-2: ((0.9, 0.1),) * 4}
    arm = Arm(sampler="grid", trials=3, scheduler="moasha", grace=1, reduction=3, stopping=stopping)
    course = replay(made(beaten), arm, seed=0)
    assert course.order == ("0.0001", "0.001", "0.01")
    assert (course.spent, course.stopped) == (6, 2)
    assert replay(made(beaten), replace(arm, scheduler="none"), seed=0).spent == 12


def test_a_trial_that_waits_goes_on_when_it_is_among_the_best():
    # Two of four may pass the rung; the second arrival waits and is promoted by the fourth.
    rising = {0.1: ((0.0, 0.9),) * 2, 0.2: ((0.1, 0.8),) * 2, 0.3: ((0.5, 0.5),) * 2, 0.4: ((0.9, 0.1),) * 2}
    table = replace(made(rising), space=Space((Choice("lr", tuple(rising)),), {"method": "ngdiff"}))
    arm = Arm(sampler="grid", trials=4, scheduler="moasha", grace=1, reduction=2)
    assert replay(table, arm, seed=0).spent == 5
    assert replay(table, replace(arm, stopping="pause"), seed=0).spent == 6


def test_a_proposal_is_answered_by_the_nearest_run_that_was_not_had():
    table = made()
    config = {"method": "ngdiff", "lr": 2e-3}
    assert table.nearest(config, {0, 1, 2})[0] == 1
    place, distance = table.nearest(config, {0, 2})
    assert place == 2
    assert distance == pytest.approx(math.log(5.0) / math.log(100.0))
    for seed in range(5):
        assert sorted(replay(table, Arm(sampler="random", trials=99), seed=seed).order) == ["0.0001", "0.001", "0.01"]


def test_two_methods_are_farther_apart_than_any_two_rates():
    space = Space(
        (
            Choice("method", ("gdiff", "ngdiff")),
            Number("c", 0.1, 0.9, log_to_one=True, when={"method": ("gdiff",)}),
            Number("lr", 1e-4, 1e-2, log=True),
        )
    )
    configs = [{"method": "gdiff", "c": 0.1, "lr": 1e-4}, {"method": "ngdiff", "lr": 1e-2}]
    table = Table(
        space, axes(METRICS, GUESS), tuple(Run(str(i), config, "finished", ()) for i, config in enumerate(configs))
    )
    assert table.nearest({"method": "gdiff", "c": 0.9, "lr": 1e-2}, {0, 1}) == (0, pytest.approx(math.sqrt(2.0)))
    assert table.nearest({"method": "ngdiff", "lr": 1e-4}, {0, 1})[0] == 1


def test_a_logarithmic_axis_is_linear_in_the_logarithm():
    table, low = Table(SPACE, axes(LOSSES, GUESS), made().runs), 1e-3
    forget, retain = table.objectives
    row = {"forget_loss_capped": GUESS, "retain_loss": math.sqrt(low * GUESS)}
    assert Yardstick.of(table, (forget, replace(retain, low=low, log=True))).costs(row) == pytest.approx([0.0, 0.5])
    assert Yardstick.of(table).costs(row) == pytest.approx([0.0, math.sqrt(low / GUESS)])
    assert Yardstick.of(table).costs({"forget_loss_capped": math.nan, "retain_loss": 0.1}) is None


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


def test_curves_hold_what_was_reached_at_the_end_of_a_replay():
    course = replay(made(), Arm(sampler="grid", trials=1), seed=0)
    curves = progress(course, Yardstick.of(made()), epochs=6)
    assert np.all(curves.share[2:] == curves.share[2])
    assert np.all(np.diff(curves.share) >= 0)
    assert np.all(np.diff(curves.epsilon) <= 0)
