"""The notes below a comparison table."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from analysis.report.comparison_text import comparison_content, latex, markdown, web_page
from analysis.report.render import note_text
from analysis.tables.note import Note, note
from tests.analysis.comparison.conftest import BASELINE, GOOD, Compared, WriteCsv, read, without
from tests.analysis.conftest import MakeSweep, Row, trial


def of_seeds(*seeds: int, **fields: object) -> list[Row]:
    return [trial(f"{fields}{seed}", 6.0, 0.5, seed=seed, **GOOD | fields) for seed in seeds]


BOTH_SIDES = [*of_seeds(0, 1), *of_seeds(0, 1, auto_lr="on")]


@pytest.mark.parametrize(
    ("rows", "entries", "expected"),
    [
        (BOTH_SIDES, {}, None),
        (
            [*of_seeds(0, 1, 2), *of_seeds(3, 4, 5, auto_lr="on")],
            {},
            note("different_seeds", method="ngdiff", without=(0, 1, 2), with_auto=(3, 4, 5)),
        ),
        ([*of_seeds(0, 1), *of_seeds(0, method="gdiff")], {}, note("one_seed", names=("gdiff",))),
        (of_seeds(0), {}, note("one_seed", names=("ngdiff",))),
        (
            of_seeds(0, status="diverged"),
            {},
            note("arm_without_finished_trial", arm="ngdiff", ends=(("diverged", 1),)),
        ),
        (
            [*of_seeds(0, 1), of_seeds(0)[0] | {"seed": 2}],
            {},
            note("repeated_rows", file="trials.csv", trials=(of_seeds(0)[0]["trial_id"],)),
        ),
        (of_seeds(0, 1), {"baseline": {}}, note("thresholds_not_judged", names=("utility", "truth ratio"))),
        (
            of_seeds(0, 1),
            {"settings": {"constraints": ["verbmem<=0.5"]}},
            note("stated_thresholds_ignored", stated=("verbmem<=0.5",)),
        ),
    ],
    ids=[
        *("no trouble", "other seeds", "one seed of one method", "one seed"),
        *("lost", "repeated trial", "no baseline", "stated thresholds"),
    ],
)
def test_each_trouble_has_one_note_in_every_format(
    compared: Compared, rows: list[Row], entries: dict[str, object], expected: Note | None
) -> None:
    table = compared(rows, **entries)
    assert table.notes == (() if expected is None else (expected,))
    count = len(table.notes)
    assert (markdown([table]).count("\n- "), web_page([table]).count("<li>")) == (count, count)
    texts = list(map(note_text, table.notes))
    assert len(latex([table])) >= len(latex([replace(table, notes=())])) + sum(map(len, texts))
    ((content,),) = comparison_content([table]).values()  # type: ignore[attr-defined]
    assert content["notes"] == texts


def test_rows_without_seeds_are_runs(theirs: WriteCsv) -> None:
    path = theirs("method,verbmem,utility\nNo-unlearn,0.9,0.8\nA,0.05,0.7\nA,0.5,\nA,0.6,0.3\nB,0.05,0.7\n")
    (table,) = read(path)
    assert [(without(table, place).seeds, without(table, place).unit) for place in (0, 1)] == [(3, "run"), (1, "run")]
    assert (without(table).missed, without(table).not_judged, without(table).success) == (2, 1, None)
    assert note("unnamed_seeds", names=("A",)) in table.notes
    assert note("thresholds_not_judged", names=("truth ratio",)) in table.notes
    assert "(2 of 3 runs)" in markdown([table])
    assert "seeds |" not in markdown([table])


@pytest.mark.parametrize(
    ("epochs", "named"),
    [
        ({}, None),
        ({("bad", 2): GOOD}, ("trial bad after epoch 2",)),
        ({("lost2", 1): GOOD}, ("trial lost2 after epoch 1",)),
    ],
)
def test_a_success_before_the_end_is_named(
    make_sweep: MakeSweep, epochs: dict[tuple[str, int], Row], named: tuple[str, ...] | None
) -> None:
    """``named`` is None if only last epochs are models, and empty if no trial succeeds only at an earlier epoch."""
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
    assert table.notes == (() if named is None else (note("only_ends_compared", better=named),))


# External rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        ("method,verbmem,utility\nnpo,0.01,0.79\n", True),
        ("method,dataset,verbmem,utility\nNo-unlearn,,0.9,0.8\nnpo,authors,0.01,0.79\n", True),
        ("method,dataset,verbmem,utility\nnpo,tofu,0.01,0.79\n", False),
        ("method,verbmem,utility\nNo-unlearn,0.9,0.5\nnpo,0.01,0.79\n", False),
    ],
    ids=["nothing named", "data set and target", "another data set", "another target"],
)
def test_rows_that_can_only_mean_these_trials_join_them(
    make_sweep: MakeSweep, theirs: WriteCsv, text: str, joins: bool
) -> None:
    tables = read(make_sweep(of_seeds(0, 1), baseline=BASELINE), theirs(text))
    assert [[row.method for row in table.rows] for table in tables] == (
        [["ngdiff", "npo"]] if joins else [["ngdiff"], ["npo"]]
    )
    assert [note("unplaced_rows") in table.notes for table in tables] == ([False] if joins else [False, True])
    if joins:
        utility = without(tables[0], 1).values["utility"]
        assert (utility.mean, utility.met) == (0.79, True), "compared with the sweep's target"


def test_rows_that_could_mean_two_problems_are_a_table_of_their_own(make_sweep: MakeSweep, theirs: WriteCsv) -> None:
    """The rows join the second sweep if they name its data set."""
    one = make_sweep(of_seeds(0, 1), name="one", baseline=BASELINE)
    two = make_sweep(of_seeds(0, 1, dataset="tofu"), name="two", baseline=BASELINE)
    assert len(read(one, two, theirs("method,verbmem,utility\nnpo,0.01,0.79\n"))) == 3
    tables = read(one, two, theirs("method,dataset,verbmem,utility\nnpo,tofu,0.01,0.79\n"))
    assert [[row.method for row in table.rows] for table in tables] == [["ngdiff"], ["ngdiff", "npo"]]
