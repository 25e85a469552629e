"""What is said below a table, so that nobody trusts it for what it does not show."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from analysis.comparison.formats import latex, markdown, web_page
from analysis.comparison.table import ComparisonTable
from tests.analysis.comparison.conftest import BASELINE, GOOD, read, without
from tests.analysis.conftest import MakeSweep, Row, trial

Compared = Callable[..., ComparisonTable]
ALONE = "on one seed alone, which does not say how another would end"
ENDS = "only the ends of trials are compared, while report and pick judge the epochs before them, too"


@pytest.fixture
def of_seeds() -> Callable[..., list[Row]]:
    def make(*seeds: int, **fields: object) -> list[Row]:
        return [trial(f"{fields}{seed}", 6.0, 0.5, seed=seed, **GOOD | fields) for seed in seeds]

    return make


def test_a_table_without_any_trouble_has_no_note(compared: Compared, of_seeds: Callable[..., list[Row]]) -> None:
    table = compared([*of_seeds(0, 1), *of_seeds(0, 1, auto_lr="on")])
    assert table.notes == ()
    assert "<ul>" not in web_page([table])


@pytest.mark.parametrize(
    ("hand", "auto", "note"),
    [
        ((0, 1, 2), (3, 4, 5), "without AutoLR on seeds 0 to 2, with it on seeds 3 to 5"),
        ((0, 1, 4), (0, 1), "without AutoLR on seeds 0, 1 and 4, with it on seeds 0 and 1"),
    ],
)
def test_sides_on_other_seeds_are_told(
    compared: Compared, of_seeds: Callable[..., list[Row]], hand: tuple[int, ...], auto: tuple[int, ...], note: str
) -> None:
    note = f"ngdiff: {note}, which may make a difference"
    table = compared([*of_seeds(*hand), *of_seeds(*auto, auto_lr="on")])
    assert table.notes == (note,)
    assert f"\n- {note}\n" in markdown([table])
    assert f"<li>{note}</li>" in web_page([table])
    assert f" N{note[1:]}." in latex([table])


def test_what_rests_on_one_seed_is_named(compared: Compared, of_seeds: Callable[..., list[Row]]) -> None:
    rows = of_seeds(0, 1) + of_seeds(0, method="gdiff")
    assert compared(rows, name="some").notes == (f"{ALONE}: gdiff",)
    assert compared(rows[1:], name="all").notes == (f"{ALONE}: every configuration here",)
    lost = compared(of_seeds(0, status="diverged"), name="lost")
    assert lost.notes == ("ngdiff: its one trial has not finished (1 diverged)",)


def test_a_repeated_trial_is_told_with_its_sweep(make_sweep: MakeSweep, of_seeds: Callable[..., list[Row]]) -> None:
    rows = [row | {"trial_id": str(row["seed"])} for row in of_seeds(0, 1)]
    one = make_sweep(rows, name="one", baseline=BASELINE)
    two = make_sweep([rows[0] | {"utility": 0.1}], name="two", baseline=BASELINE)
    (table,) = read(one, two)
    repeated = "1 trial repeated the settings and seed of another and did not count"
    assert table.notes == (f"{repeated}; 1 ended otherwise: one/0 counts and not two/0",)


def test_what_was_left_out_while_reading_is_told(compared: Compared, of_seeds: Callable[..., list[Row]]) -> None:
    rows = of_seeds(0, 1)
    table = compared([*rows, rows[0] | {"seed": 2}])
    assert table.notes == (f"trials.csv has more than one row for trial {rows[0]['trial_id']}: the first counts",)


def test_rows_without_seeds_are_runs(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,verbmem,utility\nNo-unlearn,0.9,0.8\nA,0.05,0.7\nA,0.5,0.3\nA,0.6,0.3\nB,0.05,0.7\n")
    (table,) = read(path)
    assert [without(table, place).count for place in (0, 1)] == ["3 runs", "1 run"]
    assert without(table).outcome == "no (2 of 3 runs miss a threshold, 1 not judged)"
    assert "rows that do not name their seeds are taken to be runs of one configuration: A" in table.notes
    assert "nothing here can be called a success, as truth ratio cannot be judged" in table.notes
    assert "seeds |" not in markdown([table])


def test_a_metric_of_some_runs_says_of_how_many(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,verbmem,utility\nA,0.05,0.7\nA,0.5,\n")
    assert "0.7 (1 of 2 runs)" in markdown(read(path))


def test_without_a_no_unlearn_model_it_is_said_what_cannot_be_judged(
    compared: Compared, of_seeds: Callable[..., list[Row]]
) -> None:
    table = compared(of_seeds(0, 1), baseline={})
    assert table.notes == ("nothing here can be called a success, as utility and truth ratio cannot be judged",)
    assert without(table).outcome == "–"


def test_thresholds_that_were_stated_are_not_those_of_the_table(
    compared: Compared, of_seeds: Callable[..., list[Row]]
) -> None:
    table = compared(of_seeds(0, 1), settings={"constraints": ["verbmem<=0.5"]})
    assert table.notes == ("report and pick judge by the thresholds stated (verbmem<=0.5), this table by the paper's",)


def test_a_value_outside_its_bounds_is_told_with_its_row(
    make_sweep: MakeSweep, of_seeds: Callable[..., list[Row]], tmp_path: Path
) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,model,dataset,verbmem,utility,truth_ratio\nnpo,tiny-phi,authors,5.2,71.3,0.6\n")
    (table,) = read(make_sweep(of_seeds(0, 1), baseline=BASELINE), path)
    assert table.notes == (
        "verbmem is 5.2 in theirs.csv/line 2, expected from 0 to 1: write shares, not percent",
        "utility is 71.3 in theirs.csv/line 2, expected from 0 to 1: write shares, not percent",
    )


@pytest.mark.parametrize(
    ("epochs", "note"),
    [
        ({}, None),
        ({("bad", 1): {}}, ENDS),
        ({("bad", 2): GOOD}, f"{ENDS}, of which these succeed where the end does not: trial bad after epoch 2"),
        ({("good", 2): GOOD}, ENDS),
        ({("lost2", 1): GOOD}, f"{ENDS}, of which these succeed where the end does not: trial lost2 after epoch 1"),
        (
            {(name, epoch): GOOD for name in ("bad", "lost2", "lost3", "lost4") for epoch in (1, 2)},
            f"{ENDS}, of which these succeed where the end does not: trial bad after epoch 1, "
            "trial lost2 after epoch 1, trial lost3 after epoch 1 and 1 more",
        ),
    ],
)
def test_a_success_before_the_end_of_a_trial_is_told(
    make_sweep: MakeSweep, epochs: dict[tuple[str, int], Row], note: str | None
) -> None:
    rows = [
        trial("good", 6.0, 0.5, seed=0, **GOOD),
        trial("bad", 8.0, 5.0, seed=1, verbmem=0.0, utility=0.1, truth_ratio=0.1),
        *(trial(f"lost{seed}", None, None, seed=seed, status="diverged") for seed in (2, 3, 4)),
    ]
    out = make_sweep(rows, baseline=BASELINE)
    if epochs:
        with (out / "candidates.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ("trial_id", "epoch", "step", *GOOD, "checkpoint"))
            writer.writeheader()
            for (name, epoch), scores in epochs.items():
                writer.writerow({"trial_id": name, "epoch": epoch, "step": 5 * epoch} | scores)
    (table,) = read(out)
    assert table.notes == ((note,) if note else ())


# Rows from elsewhere -----------------------------------------------------------------------------------------------


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "theirs.csv"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "method,verbmem,utility\nnpo,0.01,0.79\n",
        "method,dataset,verbmem,utility\nnpo,authors,0.01,0.79\n",
        "method,verbmem,utility\nNo-unlearn,0.9,0.8\nnpo,0.01,0.79\n",
    ],
    ids=["nothing named", "the data set", "the same No-unlearn model"],
)
def test_rows_that_can_only_mean_the_trials_here_stand_beside_them(
    make_sweep: MakeSweep, of_seeds: Callable[..., list[Row]], theirs: Callable[[str], Path], text: str
) -> None:
    (table,) = read(make_sweep(of_seeds(0, 1), baseline=BASELINE), theirs(text))
    assert [row.method for row in table.rows] == ["ngdiff", "npo"]
    utility = without(table, 1).values["utility"]
    assert (utility.mean, utility.met) == (0.79, True), "held against the sweep's No-unlearn model"


@pytest.mark.parametrize(
    "text",
    [
        "method,dataset,verbmem,utility\nnpo,tofu,0.01,0.79\n",
        "method,verbmem,utility\nNo-unlearn,0.9,0.5\nnpo,0.01,0.79\n",
    ],
    ids=["another data set", "another No-unlearn model"],
)
def test_rows_that_may_mean_something_else_are_a_table_of_their_own(
    make_sweep: MakeSweep, of_seeds: Callable[..., list[Row]], theirs: Callable[[str], Path], text: str
) -> None:
    own, other = read(make_sweep(of_seeds(0, 1), baseline=BASELINE), theirs(text))
    assert [row.method for row in other.rows] == ["npo"]
    assert any("leave their model or data set open" in note for note in other.notes)
    assert not any("leave" in note for note in own.notes)


def test_rows_that_could_mean_two_problems_are_a_table_of_their_own(
    make_sweep: MakeSweep, of_seeds: Callable[..., list[Row]], theirs: Callable[[str], Path]
) -> None:
    """They are about the second where they name its data set."""
    one = make_sweep(of_seeds(0, 1), name="one", baseline=BASELINE)
    two = make_sweep(of_seeds(0, 1, dataset="tofu"), name="two", baseline=BASELINE)
    assert len(read(one, two, theirs("method,verbmem,utility\nnpo,0.01,0.79\n"))) == 3
    tables = read(one, two, theirs("method,dataset,verbmem,utility\nnpo,tofu,0.01,0.79\n"))
    assert [[row.method for row in table.rows] for table in tables] == [["ngdiff"], ["ngdiff", "npo"]]


def test_notes_are_in_the_json_of_a_table(compared: Compared, of_seeds: Callable[..., list[Row]]) -> None:
    content = json.loads(json.dumps(asdict(compared(of_seeds(0)))))
    assert content["notes"] == [f"{ALONE}: ngdiff"]
    assert content["rows"][0]["without"]["seed_numbers"] == [0]
    assert content["rows"][0]["without"]["succeeded"] == 1
