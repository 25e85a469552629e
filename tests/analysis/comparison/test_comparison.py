"""The paper's table: the configuration of each method, the success of its seeds, the notes and the formats."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analysis.comparison.arms import RowKey
from analysis.comparison.comparison import comparison_data, comparison_sources
from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value
from analysis.errors import AnalysisError
from analysis.report.comparison_text import FORMATS, comma_separated, comparison_content, latex, markdown, web_page
from analysis.report.render import note_text, render_line
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.tasks import Task
from sweeper.store.columns import column_dictionary
from tests.analysis.conftest import MakeSweep, Row, external_csv, trial
from tests.conftest import GOLDEN

Compared = Callable[..., ComparisonTable]
GOOD = {"verbmem": 0.05, "utility": 0.7, "truth_ratio": 0.4}
BASELINE = {"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5, "forget_loss": 0.04, "retain_loss": 0.05}


def read(*sources: Path) -> tuple[ComparisonTable, ...]:
    columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
    return comparison_data(comparison_sources(list(sources), columns))


def without(table: ComparisonTable, place: int = 0) -> Entry:
    """Return the entry of a method without AutoLR."""
    entry = table.rows[place].without
    assert entry is not None
    return entry


@pytest.fixture
def compared(make_sweep: MakeSweep) -> Compared:
    """Return the comparison table of a sweep with the given trials."""

    def of(rows: list[Row], **sweep: object) -> ComparisonTable:
        (table,) = read(make_sweep(rows, **{"baseline": BASELINE} | sweep))
        return table

    return of


def csv_rows(tables: Sequence[ComparisonTable]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(comma_separated(tables))))


@pytest.fixture
def table(compared: Compared) -> ComparisonTable:
    """At lr 1e-3, both seeds meet the thresholds. At 1e-2, the hypervolume is larger, but the models forgot all."""
    good, bad = GOOD | {"lr": 1e-3}, {"verbmem": 0.0, "utility": 0.1, "truth_ratio": 0.2, "lr": 1e-2}
    return compared(
        [
            trial("00000", 6.0, 0.5, **good, seed=0),
            trial("00001", 6.0, 0.7, **good | {"utility": 0.6}, seed=1),
            *(trial(f"0001{seed}", 8.0, 0.1, **bad, seed=seed) for seed in (0, 1)),
            trial("00020", 7.0, 0.5, **good | {"verbmem": 0.2}, seed=0, auto_lr="gen-clip"),
            trial("00021", None, None, seed=1, lr=1e-3, auto_lr="gen-clip", status="diverged"),
            trial("00030", None, None, method="gdiff", c=0.5, status="failed"),
        ]
    )


def test_a_method_is_shown_at_the_configuration_with_most_successes_before_hypervolume(table: ComparisonTable) -> None:
    hand, auto = without(table), table.rows[0].with_auto
    assert (hand.label, hand.seeds, hand.success) == ("lr 0.001", 2, True)
    utility = hand.values["utility"]
    assert (utility.mean, utility.deviation) == (pytest.approx(0.65), pytest.approx(0.0707, abs=1e-4))
    assert auto is not None
    assert (auto.label, auto.seeds, auto.lost, auto.success) == ("AutoLR gen-clip/fresh from lr 0.001", 1, 1, False)
    assert (auto.values["verbmem"].met, auto.values["utility"].met) == (False, True)
    wanted = {"method": "ngdiff", "auto_lr": "off", "metric": "utility"}
    (cell,) = [row for row in csv_rows([table]) if wanted.items() <= row.items()]
    assert float(cell["mean"]) == pytest.approx(0.65, abs=1e-15), "not rounded"
    assert (cell["seeds"], cell["meets_threshold"], cell["success"]) == ("2", "True", "True")
    # The target comes first, and a mean that meets its threshold is bold.
    lines = markdown([table]).splitlines()
    assert lines[4].startswith("| target | 0.9 | 0.8 | 0.5 | 0.04")
    assert "**0.05 ± 0** → 0.2" in lines[5].replace("0.0500", "0.05")
    assert "yes → no" in lines[5]


def test_sweeps_with_another_target_and_without_trials_are_not_compared(make_sweep: MakeSweep) -> None:
    one = make_sweep([trial("00000", 1.0, 1.0)], name="one")
    two = make_sweep([trial("00000", 1.0, 1.0)], name="two", baseline={"verbmem": 0.5})
    with pytest.raises(AnalysisError, match=r"one, two.*different targets"):
        read(one, two)
    with pytest.raises(AnalysisError, match="no trial"):
        read(make_sweep([], name="empty"))


def test_a_csv_of_losses_alone_joins_a_sweep_in_its_bounds(make_sweep: MakeSweep, tmp_path: Path) -> None:
    rows = "tiny-phi,authors,npo,1e-4,5.0,0.5\ntiny-phi,authors,npo,1e-3,7.0,6.0\n"
    path = external_csv(tmp_path, f"model,dataset,method,lr,forget_loss,retain_loss\n{rows}")
    (table,) = read(make_sweep([trial("00000", 1.0, 1.0)]), path)
    labels = {row.key.label: without(table, place).label for place, row in enumerate(table.rows)}
    assert labels["npo"] == "lr 1e-4", "of a box of 8 x 8 it dominates 5 * 7.5, the other 7 * 2"
    (alone,) = read(path)
    assert (without(alone).success, without(alone).values["forget_loss"].mean) == (None, 5.0)


@pytest.mark.parametrize(
    ("seeds", "success", "succeeded"),
    [
        ([(0.0, 0.0), *[(0.0, 0.75)] * 9], None, 9),
        ([(0.5, 0.7), (0.05, None), (0.05, None)], None, 0),
        ([(0.5, 0.7), (0.5, 0.7)], False, 0),
        ([(0.05, 0.7), (0.05, 0.7)], True, 2),
        ([(0.05, 0.7), (0.05, 0.7), None], None, 2),
    ],
)
def test_success_on_some_seeds_only_is_given_with_their_number(
    compared: Compared, seeds: list[tuple[float, float | None] | None], success: bool | None, succeeded: int
) -> None:
    """By the means, the first case would be a success. ``seeds`` has verbmem and utility; None if a trial diverged."""
    rows = [
        trial(f"{seed:05d}", 6.0, 0.5, verbmem=scores[0], utility=scores[1], truth_ratio=0.4, seed=seed)
        if scores
        else trial(f"{seed:05d}", None, None, seed=seed, status="diverged")
        for seed, scores in enumerate(seeds)
    ]
    table = compared(rows)
    entry = without(table)
    assert (entry.success, entry.succeeded, entry.lost) == (success, succeeded, seeds.count(None))
    assert f"| {render_line('comparison_text.outcome', entry=entry)} |" in markdown([table])
    found = {row["metric"]: row for row in csv_rows([table]) if row["method"] == "ngdiff"}
    cells = {(row["lost"], row["success"]) for row in found.values()}
    assert cells == {(str(entry.lost), "" if success is None else str(success))}
    assert int(found["verbmem"]["seeds_measured"]) == entry.seeds


@pytest.mark.parametrize(
    ("scores", "baseline", "success", "utility"),
    [
        # A share above 1 is impossible.
        ({"verbmem": 0.05, "utility": 70.0, "truth_ratio": 0.6}, {"truth_ratio": 0.7}, None, None),
        # Because of rounding, the mean of three equal numbers is slightly below them.
        ({"verbmem": 0.05, "utility": 0.7 * 0.5, "truth_ratio": 0.6}, {"utility": 0.5, "truth_ratio": 0.7}, True, True),
        ({"verbmem": 0.1 / 3, "utility": 0.7}, {"truth_ratio": None}, True, True),
        ({"verbmem": 0.1 / 3, "utility": 0.7}, {}, None, True),
    ],
    ids=["a value out of bounds", "a mean on the bound", "not a metric of this task", "one metric not measured"],
)
def test_three_equal_seeds_are_judged_as_one(
    compared: Compared,
    scores: dict[str, float],
    baseline: dict[str, float | None],
    success: bool | None,
    utility: bool | None,
) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, **scores, seed=seed) for seed in range(3)]
    entry = without(compared(rows, baseline=BASELINE | baseline))
    assert (entry.success, entry.values["utility"].met, entry.values["verbmem"].met) == (success, utility, True)
    assert {value.deviation for value in entry.values.values()} == {0.0}


NASTY = ComparisonTable(
    Task("a_b & 50%", "<tofu>", "target key 0x_1"),
    ("my_metric",),
    None,
    (MethodRow(RowKey("x|y_{z}~^\\#$"), Entry("lr 1", 1, 0, {"my_metric": Value(0.5, None, True)}, 1), None),),
)


def test_names_are_escaped_in_every_format() -> None:
    assert r"a\_b \& 50\%" in latex([NASTY])
    assert r"x\textbar{}y\_\{z\}\textasciitilde{}\textasciicircum{}\textbackslash{}\#\$" in latex([NASTY])
    assert "&lt;tofu&gt;" in web_page([NASTY])
    assert "<tofu>" not in web_page([NASTY])
    cells = [re.split(r"(?<!\\)\|", line) for line in markdown([NASTY]).splitlines() if line.startswith("|")]
    assert len({len(row) for row in cells}) == 1


def test_the_latex_balances_and_every_row_has_as_many_cells_as_columns() -> None:
    text = latex(read(GOLDEN))
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text).group(1))  # type: ignore[union-attr]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 5
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
    assert text.isascii()


LOST: Row = {"status": "diverged"}
MISSED: Row = {"utility": 0.1}


def runs(lr: float, forget: float, *ends: Row) -> list[Row]:
    """Return the trials of one configuration, with a seed for each end. A high forget loss has a high hypervolume."""
    return [
        trial(f"{lr}-{seed}", forget, 0.5, **GOOD | {"lr": lr, "seed": seed} | end) for seed, end in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("many", "few", "label"),
    [
        ([{}, {}, LOST], [{}], "lr 0.001"),
        ([*[{}] * 9, MISSED], [{}] * 3, "lr 0.001"),
        ([{}] * 3, [{}] * 3, "lr 0.01"),
        # Both hypervolumes are 0, so the finished trial ranks above the lost trial.
        ([LOST | {"forget_loss": 0.0}], [MISSED | {"forget_loss": 0.0, "retain_loss": 8.0}], "lr 0.01"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_the_surest_success_is_shown_then_the_box_decides(
    compared: Compared, many: list[Row], few: list[Row], label: str
) -> None:
    """The configuration at 1e-2 (``few``) has the larger hypervolume."""
    table = compared([*runs(1e-3, 6.0, *many), *runs(1e-2, 7.9, *few)])
    assert without(table).label == label


def test_an_arm_that_lost_every_seed_is_not_one_that_was_never_run(compared: Compared) -> None:
    """ngdiff lost every seed with AutoLR. gdiff was only run without AutoLR, and lost every seed."""
    auto = [trial(f"1{seed}", None, None, seed=seed, auto_lr="gen-clip", **LOST) for seed in range(3)]
    other = [trial(f"2{seed}", None, None, seed=seed, method="gdiff", status="failed") for seed in range(2)]
    lost = compared([*runs(1e-4, 6.0, *[{}] * 3), *auto, *other])
    ngdiff, gdiff = lost.rows
    assert ngdiff.with_auto is not None
    assert (ngdiff.with_auto.seeds, ngdiff.with_auto.lost, ngdiff.with_auto.seed_numbers) == (0, 3, (0, 1, 2))
    assert (ngdiff.with_auto.success, ngdiff.with_auto.values) == (None, {})
    assert (without(lost, 1).seeds, without(lost, 1).lost) == (0, 2)
    assert gdiff.with_auto is None
    assert "| gdiff | – → – |" in FORMATS["md"]([lost])
    lacking = (("ngdiff with AutoLR", (("diverged", 3),)), ("gdiff", (("failed", 2),)))
    assert lost.notes == tuple(note("arm_without_finished_trial", arm=arm, ends=ends) for arm, ends in lacking)
    rows = [row for row in csv_rows([lost]) if row["seeds"] == "0"]
    found = [(row["method"], row["auto_lr"], row["lost"], row["seed_numbers"], row["metric"]) for row in rows]
    assert found == [("ngdiff", "on", "3", "0 1 2", ""), ("gdiff", "off", "2", "0 1", "")]


def of_seeds(*seeds: int, **fields: object) -> list[Row]:
    return [trial(f"{fields}{seed}", 6.0, 0.5, seed=seed, **GOOD | fields) for seed in seeds]


@pytest.mark.parametrize(
    ("rows", "entries", "expected"),
    [
        ([*of_seeds(0, 1), *of_seeds(0, 1, auto_lr="gen-clip")], {}, None),
        (
            [*of_seeds(0, 1, 2), *of_seeds(3, 4, 5, auto_lr="gen-clip")],
            {},
            note("different_seeds", method="ngdiff", without=(0, 1, 2), with_auto=(3, 4, 5)),
        ),
        ([*of_seeds(0, 1), *of_seeds(0, method="gdiff")], {}, note("one_seed", names=("gdiff",))),
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
        *("no trouble", "other seeds", "one seed of one method"),
        *("repeated trial", "no baseline", "stated thresholds"),
    ],
)
def test_each_trouble_has_one_note_in_every_format(
    compared: Compared, rows: list[Row], entries: dict[str, object], expected: Note | None
) -> None:
    table = compared(rows, **entries)
    assert table.notes == (() if expected is None else (expected,))
    texts = list(map(note_text, table.notes))
    assert markdown([table]).count("\n- ") == web_page([table]).count("<li>") == len(texts)
    ((content,),) = comparison_content([table]).values()  # type: ignore[attr-defined]
    assert content["notes"] == texts


def test_rows_without_seeds_are_runs(tmp_path: Path) -> None:
    """The table has a column of its own, and its last line counts without a newline."""
    rows = "No-unlearn,0.9,0.8,0.7\nA,0.05,0.7,0.2\nA,0.5,,\nA,0.6,0.3,\nB,0.05,0.7,"
    (table,) = read(external_csv(tmp_path, f"method,verbmem,utility,knowmem\n{rows}"))
    assert table.metrics == ("verbmem", "knowmem", "utility")
    assert [(without(table, place).seeds, without(table, place).unit) for place in (0, 1)] == [(3, "run"), (1, "run")]
    # Line 3 has neither utility nor knowmem; its verbmem shows that it missed. No row has a truth ratio.
    assert (without(table).missed, without(table).succeeded, without(table).success) == (2, 1, None)
    assert note("unnamed_seeds", names=("A",)) in table.notes
    assert [item.name for item in table.thresholds] == ["verbmem", "knowmem", "utility"]
    assert "(2 of 3 runs)" in markdown([table])
    assert "seeds |" not in markdown([table])


def test_a_comparison_says_that_earlier_epochs_are_not_compared(make_sweep: MakeSweep) -> None:
    out = make_sweep(
        [trial("good", 6.0, 0.5, seed=0, **GOOD), trial("other", 5.0, 0.5, seed=1, **GOOD)], baseline=BASELINE
    )
    assert read(out)[0].notes == ()
    (out / "candidates.csv").write_text("trial_id,epoch,step,checkpoint\ngood,1,5,\n")
    assert read(out)[0].notes == (note("only_ends_compared"),)


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
    make_sweep: MakeSweep, tmp_path: Path, text: str, joins: bool
) -> None:
    tables = read(make_sweep(of_seeds(0, 1), baseline=BASELINE), external_csv(tmp_path, text))
    assert [[row.key.label for row in table.rows] for table in tables] == (
        [["ngdiff", "npo"]] if joins else [["ngdiff"], ["npo"]]
    )
    assert [note("unplaced_rows") in table.notes for table in tables] == ([False] if joins else [False, True])
    if joins:
        utility = without(tables[0], 1).values["utility"]
        assert (utility.mean, utility.met) == (0.79, True), "compared with the sweep's target"


def test_rows_that_could_mean_two_tasks_are_a_table_of_their_own(make_sweep: MakeSweep, tmp_path: Path) -> None:
    """The rows join the second sweep if they name its data set."""
    one = make_sweep(of_seeds(0, 1), name="one", baseline=BASELINE)
    two = make_sweep(of_seeds(0, 1, dataset="tofu"), name="two", baseline=BASELINE)
    assert len(read(one, two, external_csv(tmp_path, "method,verbmem,utility\nnpo,0.01,0.79\n"))) == 3
    tables = read(one, two, external_csv(tmp_path, "method,dataset,verbmem,utility\nnpo,tofu,0.01,0.79\n"))
    assert [[row.key.label for row in table.rows] for table in tables] == [["ngdiff"], ["ngdiff", "npo"]]


PAPER_TABLE = """method,c,verbmem,utility,truth_ratio
No-unlearn,,0.99,0.98,0.5
GA,,0.1,0.02,0.2
GDiff,0.9,0.9,0.95,0.5
GDiff,0.5,0.6,0.9,0.4
GDiff,0.1,0.02,0.05,0.1
NGDiff,,0.05,0.9,0.45
"""


def test_a_table_without_a_sweep_keeps_a_row_for_each_c(tmp_path: Path) -> None:
    (table,) = read(external_csv(tmp_path, PAPER_TABLE))
    verbmem = {row.key.label: without(table, place).values["verbmem"].mean for place, row in enumerate(table.rows)}
    assert verbmem == {"GA": 0.1, "GDiff c=0.9": 0.9, "GDiff c=0.5": 0.6, "GDiff c=0.1": 0.02, "NGDiff": 0.05}
    assert not any(item.code == "repeated_runs" for item in table.notes)
    assert [row["options"] for row in csv_rows([table]) if row["metric"] == "verbmem"][1:] == [
        *("", "c=0.9", "c=0.5", "c=0.1", "")
    ]


GRID_SPACE = {"parameters": [{"type": "choice", "name": "c", "key": "gdiff.c", "values": [0.1, 0.5, 0.9]}]}
RANGE = {"parameters": [{"type": "number", "name": "c", "key": "gdiff.c", "low": 0.1, "high": 0.99}]}


def of_c(c: float, utility: float, **fields: object) -> Row:
    return trial(f"{c}{fields}", 6.0, 0.5, method="gdiff", c=c, **GOOD | {"utility": utility} | fields)


def test_each_listed_c_is_a_row_with_the_same_c_on_both_sides(compared: Compared) -> None:
    rows = [of_c(0.9, 0.2), of_c(0.5, 0.7), of_c(0.9, 0.7, auto_lr="on"), of_c(0.5, 0.1, auto_lr="on")]
    table = compared(rows, settings={"space": GRID_SPACE})
    found = {
        row.key.label: [entry and entry.values["utility"].mean for entry in table.sides(row)] for row in table.rows
    }
    assert found == {"gdiff c=0.9": [0.2, 0.7], "gdiff c=0.5": [0.7, 0.1]}
    # A searched c has no row for each of its values. Each side shows the c of its best trial.
    searched = compared(rows, name="range", settings={"space": RANGE})
    assert [row.key.label for row in searched.rows] == ["gdiff"]
    assert without(searched).label == "lr 1e-4, c 0.5"
    assert note("options_differ", method="gdiff", names=("c",)) in searched.notes


def test_among_failures_the_primary_metrics_decide_and_not_the_losses(compared: Compared) -> None:
    """At lr 1e-2, the losses have the larger hypervolume, but a third of the utility is left."""
    kept, lost = {"verbmem": 0.3, "utility": 0.79}, {"verbmem": 0.1, "utility": 0.26}
    table = compared([trial("0", 5.0, 1.0, lr=1e-3, **kept), trial("1", 7.9, 0.2, lr=1e-2, **lost)])
    assert (without(table).label, without(table).success) == ("lr 0.001", False)


@pytest.mark.parametrize(
    ("scores", "target", "success"),
    [
        ({"verbmem": 0.05, "utility": 0.7, "knowmem": 0.34}, {"knowmem": 0.5}, True),
        ({"verbmem": 0.05, "utility": 0.7, "knowmem": 0.35}, {"knowmem": 0.5}, False),
        ({"forget_accuracy": 0.5, "retain_accuracy": 0.8}, {"forget_accuracy": 1.0, "retain_accuracy": 1.0}, True),
        ({"forget_accuracy": 0.96, "retain_accuracy": 0.8}, {"forget_accuracy": 1.0, "retain_accuracy": 1.0}, False),
        ({"forget_accuracy": 0.5, "retain_accuracy": 0.69}, {"forget_accuracy": 1.0, "retain_accuracy": 1.0}, False),
    ],
    ids=["MUSE", "MUSE, too much known", "images", "images, nothing forgotten", "images, too much lost"],
)
def test_success_uses_the_thresholds_of_what_was_measured(
    compared: Compared, scores: dict[str, float], target: dict[str, float], success: bool
) -> None:
    language = {"verbmem": 0.9, "utility": 0.8} if "verbmem" in scores else {}
    (entry,) = [without(compared([trial("0", 6.0, 0.5, **scores)], baseline=language | target))]
    assert (entry.success, all(value.met for value in entry.values.values() if value.met is not None)) == (success,) * 2
