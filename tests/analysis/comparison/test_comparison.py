"""The paper's table: the configuration of each method, the success of its seeds, and the formats."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

import pytest

from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value
from analysis.errors import AnalysisError
from analysis.report.comparison_text import comma_separated, latex, markdown, web_page
from analysis.report.render import say
from analysis.tables.problems import Problem
from tests.analysis.comparison.conftest import BASELINE, GOOD, Compared, WriteCsv, read, without
from tests.analysis.conftest import MakeSweep, trial
from tests.conftest import GOLDEN


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
            trial("00020", 7.0, 0.5, **good | {"verbmem": 0.2}, seed=0, auto_lr="on"),
            trial("00021", None, None, seed=1, lr=1e-3, auto_lr="on", status="diverged"),
            trial("00030", None, None, method="gdiff", c=0.5, status="failed"),
        ]
    )


def test_a_method_is_shown_at_the_configuration_with_most_successes_before_hypervolume(table: ComparisonTable) -> None:
    hand, auto = without(table), table.rows[0].with_auto
    assert (hand.label, hand.seeds, hand.success) == ("lr 0.001", 2, True)
    utility = hand.values["utility"]
    assert (utility.mean, utility.deviation) == (pytest.approx(0.65), pytest.approx(0.0707, abs=1e-4))
    assert auto is not None
    assert (auto.label, auto.seeds, auto.lost, auto.success) == ("AutoLR clip/fresh from lr 0.001", 1, 1, False)
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


# External rows -----------------------------------------------------------------------------------------------


def test_an_external_csv_joins_with_its_own_columns(theirs: WriteCsv) -> None:
    path = theirs(
        "method,verbmem,utility,truth_ratio,knowmem\nNo-unlearn,0.9,0.8,0.5,0.7\n"
        "npo,0.05,0.7,0.4,0.2\nnpo,0.07,0.6,0.4,\nga,0.0,0.0,0.1,0.0"
    )
    (table,) = read(path)
    assert [row.method for row in table.rows] == ["npo", "ga"], "the last line counts without its newline"
    assert table.metrics == ("verbmem", "utility", "truth_ratio", "knowmem")
    assert table.baseline is not None
    assert (table.baseline.values["knowmem"].mean, without(table).success) == (0.7, True)
    assert len(read(GOLDEN, path)) == 2


def test_a_csv_of_losses_alone_joins_a_sweep_in_its_bounds(make_sweep: MakeSweep, theirs: WriteCsv) -> None:
    rows = "tiny-phi,authors,npo,1e-4,5.0,0.5\ntiny-phi,authors,npo,1e-3,7.0,6.0\n"
    path = theirs(f"model,dataset,method,lr,forget_loss,retain_loss\n{rows}")
    (table,) = read(make_sweep([trial("00000", 1.0, 1.0)]), path)
    labels = {row.method: without(table, place).label for place, row in enumerate(table.rows)}
    assert labels["npo"] == "lr 1e-4", "of a box of 8 x 8 it dominates 5 * 7.5, the other 7 * 2"
    (alone,) = read(path)
    assert (without(alone).success, without(alone).values["forget_loss"].mean) == (None, 5.0)


# Several seeds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "success", "succeeded"),
    [
        ([(0.0, 0.0), *[(0.0, 0.75)] * 9], None, 9),
        ([(0.0, 0.7), (0.0, None), (0.0, None)], None, 1),
        ([(0.5, 0.7), (0.05, None), (0.05, None)], None, 0),
        ([(0.5, 0.7), (0.5, 0.7)], False, 0),
        ([(0.05, 0.7), (0.05, 0.7)], True, 2),
        ([(0.05, None), (0.05, None)], None, 0),
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
    assert f"| {say('comparison_text.outcome', entry=entry)} |" in markdown([table])
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
        ({"verbmem": 0.1 / 3, "utility": 0.7}, {}, None, True),
    ],
    ids=["a value out of bounds", "a mean on the bound", "one metric not measured"],
)
def test_three_equal_seeds_are_judged_as_one(
    compared: Compared, scores: dict[str, float], baseline: dict[str, float], success: bool | None, utility: bool | None
) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, **scores, seed=seed) for seed in range(3)]
    entry = without(compared(rows, baseline=BASELINE | baseline))
    assert (entry.success, entry.values["utility"].met, entry.values["verbmem"].met) == (success, utility, True)
    assert {value.deviation for value in entry.values.values()} == {0.0}


# The formats -------------------------------------------------------------------------------------------------------


NASTY = ComparisonTable(
    Problem("a_b & 50%", "<tofu>", "target key 0x_1"),
    ("my_metric",),
    None,
    (MethodRow("x|y_{z}~^\\#$", Entry("lr 1", 1, 0, {"my_metric": Value(0.5, None, True)}, 1), None),),
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
    assert len(re.findall(r"\\begin", text)) == len(re.findall(r"\\end\{", text)) == 2
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text).group(1))  # type: ignore[union-attr]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
    assert text.isascii()
