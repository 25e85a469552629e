"""The paper's table: the configuration of each method, the success of its seeds, and the formats."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value
from analysis.errors import AnalysisError
from analysis.report.comparison_text import comma_separated, latex, markdown, web_page
from analysis.report.render import say
from analysis.tables.problems import Problem
from sweeper.store.columns import METRIC_COLUMNS, OUTCOME_METRICS, TRIAL_COLUMNS, column_dictionary
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


def test_all_metrics_of_a_trial_are_compared_and_nothing_else(tmp_path: Path) -> None:
    """The seconds and steps in the tables are not metrics."""
    out = Path(shutil.copytree(GOLDEN, tmp_path / "sweep"))
    trials = pd.read_csv(out / "trials.csv", dtype=str, keep_default_na=False).reindex(columns=TRIAL_COLUMNS)
    trials.fillna("").assign(**dict.fromkeys(OUTCOME_METRICS, "0.5")).to_csv(out / "trials.csv", index=False)
    sweep = json.loads((out / "sweep.json").read_text())
    sweep["columns"] = column_dictionary(random_guess=sweep["random_guess_loss"])
    (out / "sweep.json").write_text(json.dumps(sweep))
    (table,) = read(out)
    assert set(table.metrics) == set(METRIC_COLUMNS) - {"forget_loss_capped"}


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


def test_rows_without_a_learning_rate_or_a_seed_are_the_seeds_of_one_configuration(theirs: WriteCsv) -> None:
    (table,) = read(theirs("method,seed,verbmem,utility\nnpo,0,0.0,0.9\nnpo,1,0.5,0.1\nnpo,2,0.4,0.2\n"))
    entry = without(table)
    assert (entry.label, entry.seeds, entry.values["utility"].mean) == ("", 3, pytest.approx(0.4))
    text = markdown([table])
    assert ("| 3 seeds |" in text, "nan" in text) == (True, False)
    (unnumbered,) = read(theirs("method,seed,verbmem,utility\nnpo,,0.0,0.9\nnpo,,0.5,0.1\n"))
    assert without(unnumbered).seeds == 2


@pytest.mark.parametrize(
    ("columns", "heading"),
    [("", "### All methods"), ("model,", "### a"), ("dataset,", "### a"), ("model,dataset,", "### a on b")],
)
def test_the_heading_names_model_and_data_set_as_far_as_known(theirs: WriteCsv, columns: str, heading: str) -> None:
    path = theirs(f"method,{columns}verbmem,utility\nnpo,{'a,b,'[: 2 * columns.count(',')]}0.1,0.9\n")
    assert markdown(read(path)).splitlines()[0] == heading


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
    ("seeds", "success", "succeeded", "outcome"),
    [
        ([(0.0, 0.7), (0.0, 0.7), (0.25, 0.7)], None, 2, ["2", "3"]),
        ([(0.0, 0.0), *[(0.0, 0.75)] * 9], None, 9, ["9", "10"]),
        ([(0.0, 0.7), (0.0, None), (0.0, None)], None, 1, ["yes", "1", "3", "2"]),
        ([(0.5, 0.7), (0.05, None), (0.05, None)], None, 0, ["no", "1", "3", "2"]),
        ([(0.5, 0.7), (0.5, 0.7)], False, 0, ["no"]),
        ([(0.05, 0.7), (0.05, 0.7)], True, 2, ["yes"]),
        ([(0.05, None), (0.05, None)], None, 0, ["–"]),
        ([(0.05, 0.7), (0.05, 0.7), None], None, 2, ["yes", "2", "3", "1"]),
    ],
)
def test_success_on_some_seeds_only_is_given_with_their_number(
    compared: Compared,
    seeds: list[tuple[float, float | None] | None],
    success: bool | None,
    succeeded: int,
    outcome: list[str],
) -> None:
    """By their means, the first two cases would be successes. ``outcome`` has the verdict and numbers of the text."""
    rows = [
        trial(f"{seed:05d}", 6.0, 0.5, verbmem=scores[0], utility=scores[1], truth_ratio=0.4, seed=seed)
        if scores
        else trial(f"{seed:05d}", None, None, seed=seed, status="diverged")
        for seed, scores in enumerate(seeds)
    ]
    table = compared(rows)
    entry = without(table)
    text = say("comparison_text.outcome", entry=entry)
    assert re.findall(r"^yes|^no|–|\d+", text) == outcome
    assert (entry.success, entry.succeeded, entry.lost) == (success, succeeded, seeds.count(None))
    assert f"| {text} |" in markdown([table])
    cells = {(row["lost"], row["success"]) for row in csv_rows([table]) if row["method"] == "ngdiff"}
    assert cells == {(str(entry.lost), "" if success is None else str(success))}


def test_a_metric_of_some_seeds_has_their_number(compared: Compared) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, utility=None if seed else 0.7, verbmem=0.05, seed=seed) for seed in range(3)]
    table = compared(rows)
    assert "0.7 (1 of 3 seeds)" in markdown([table])
    measured = {row["metric"]: row["seeds_measured"] for row in csv_rows([table]) if row["method"] == "ngdiff"}
    assert (measured["utility"], measured["verbmem"]) == ("1", "3")


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


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX on this machine")
def test_the_latex_compiles(tmp_path: Path) -> None:
    body = latex([*read(GOLDEN), NASTY])
    (tmp_path / "t.tex").write_text(
        rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}{body}\end{{document}}"
    )
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = web_page(read(GOLDEN))
    opened: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Check().feed(page)
    assert opened == []
    assert "http" not in page
