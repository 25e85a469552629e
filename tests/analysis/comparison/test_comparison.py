"""The paper's table: which configuration stands for a method, what is bold, and the four formats."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.comparison.formats import FORMATS, comma_separated, latex, markdown, web_page
from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value
from analysis.errors import AnalysisError
from sweeper.columns import METRIC_COLUMNS, OUTCOME_METRICS, TRIAL_COLUMNS, column_dictionary
from tests.analysis.comparison.conftest import BASELINE, Row, read
from tests.conftest import GOLDEN


@pytest.fixture
def table(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> ComparisonTable:
    """At lr 1e-3 both seeds meet the thresholds; 1e-2 has the larger hypervolume and forgets everything."""
    good = {"verbmem": 0.05, "utility": 0.7, "truth_ratio": 0.4, "lr": 1e-3}
    bad = {"verbmem": 0.0, "utility": 0.1, "truth_ratio": 0.2, "lr": 1e-2}
    rows = [
        trial("00000", 6.0, 0.5, **good, seed=0),
        trial("00001", 6.0, 0.7, **good | {"utility": 0.6}, seed=1),
        *(trial(f"0001{seed}", 8.0, 0.1, **bad, seed=seed) for seed in (0, 1)),
        trial("00020", 7.0, 0.5, **good | {"verbmem": 0.2}, seed=0, auto_lr="on"),
        trial("00021", None, None, seed=1, lr=1e-3, auto_lr="on", status="diverged"),
        trial("00030", None, None, method="gdiff", c=0.5, status="failed"),
    ]
    (found,) = read(make_sweep(rows, baseline=BASELINE))
    return found


def test_a_method_is_shown_at_the_configuration_with_most_successes_before_hypervolume(table: ComparisonTable) -> None:
    ngdiff = table.rows[0]
    assert ngdiff.without is not None
    assert ngdiff.without.label == "lr 0.001"
    assert ngdiff.without.seeds == 2
    assert ngdiff.without.success is True
    utility = ngdiff.without.values["utility"]
    assert (utility.mean, utility.deviation) == (pytest.approx(0.65), pytest.approx(0.0707, abs=1e-4))


def test_autolr_stands_beside_with_its_lost_seeds_and_its_misses(table: ComparisonTable) -> None:
    auto = table.rows[0].with_auto
    assert auto is not None
    assert (auto.label, auto.seeds, auto.lost) == ("AutoLR clip/fresh from lr 0.001", 1, 1)
    assert auto.values["verbmem"].met is False
    assert auto.values["utility"].met is True
    assert (auto.success, auto.outcome) == (False, "no (1 of 2 seeds misses a threshold, 1 lost)")


def test_a_method_without_a_finished_trial_keeps_its_row(table: ComparisonTable) -> None:
    lost = Entry("lr 1e-4, c 0.5", 0, 1, {}, None, "– (1 seed lost)", 0, (0,))
    assert table.rows[1] == MethodRow("gdiff", lost, None)
    assert "| gdiff | – → – |" in markdown([table])


def test_the_no_unlearn_model_is_on_top_and_what_meets_its_threshold_is_bold(table: ComparisonTable) -> None:
    lines = markdown([table]).splitlines()
    assert lines[4].startswith("| No-unlearn | 0.9 | 0.8 | 0.5 | 0.04")
    assert "**0.05 ± 0** → 0.2" in lines[5].replace("0.0500", "0.05")
    assert "yes → no" in lines[5]


def test_one_table_for_each_model_and_data_set(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    one = make_sweep([trial("00000", 1.0, 1.0)], name="one")
    two = make_sweep([trial("00000", 1.0, 1.0, model="phi-1.5", dataset="tofu")], name="two")
    assert [(item.model, item.dataset) for item in read(one, two)] == [("tiny-phi", "authors"), ("phi-1.5", "tofu")]


def test_sweeps_with_another_target_are_not_compared(
    make_sweep: Callable[..., Path], trial: Callable[..., Row]
) -> None:
    one = make_sweep([trial("00000", 1.0, 1.0)], name="one")
    two = make_sweep([trial("00000", 1.0, 1.0)], name="two", baseline={"verbmem": 0.5})
    with pytest.raises(
        AnalysisError, match=r"different No-unlearn models \(one, two\): compare each by itself, or use report"
    ):
        read(one, two)


def test_an_empty_sweep_has_nothing_to_compare(make_sweep: Callable[..., Path]) -> None:
    with pytest.raises(AnalysisError, match="no trial to compare"):
        read(make_sweep([]))


def test_of_all_a_trial_tells_the_metrics_are_compared_and_nothing_else(tmp_path: Path) -> None:
    """Against the columns the sweep writes: seconds, steps and shares of padding are no metrics."""
    out = Path(shutil.copytree(GOLDEN, tmp_path / "sweep"))
    with (out / "trials.csv").open(newline="") as file:
        rows = [{name: row.get(name) or "" for name in TRIAL_COLUMNS} for row in csv.DictReader(file)]
    for row in rows:
        row.update({name: row[name] or "0.5" for name in OUTCOME_METRICS})
    with (out / "trials.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, TRIAL_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    sweep = json.loads((out / "sweep.json").read_text())
    sweep["columns"] = column_dictionary(random_guess=sweep["random_guess_loss"])
    (out / "sweep.json").write_text(json.dumps(sweep))
    (table,) = read(out)
    assert set(table.metrics) == set(METRIC_COLUMNS) - {"forget_loss_capped"}


def test_a_csv_from_elsewhere_joins_with_its_own_columns(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(
        "method,verbmem,utility,truth_ratio,knowmem\nNo-unlearn,0.9,0.8,0.5,0.7\n"
        "npo,0.05,0.7,0.4,0.2\nnpo,0.07,0.6,0.4,\nga,0.0,0.0,0.1,0.0\n"
    )
    (table,) = read(path)
    assert [row.method for row in table.rows] == ["npo", "ga"]
    assert table.metrics == ("verbmem", "utility", "truth_ratio", "knowmem")
    assert table.baseline is not None
    assert table.baseline.values["knowmem"].mean == 0.7
    assert table.rows[0].without is not None
    assert table.rows[0].without.success is True
    both = read(GOLDEN, path)
    assert len(both) == 2


def test_rows_without_a_learning_rate_or_a_seed_are_the_seeds_of_one_configuration(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,seed,verbmem,utility\nnpo,0,0.0,0.9\nnpo,1,0.5,0.1\nnpo,2,0.4,0.2\n")
    (table,) = read(path)
    entry = table.rows[0].without
    assert entry is not None
    assert (entry.label, entry.seeds) == ("", 3)
    assert entry.values["utility"].mean == pytest.approx(0.4)
    text = markdown([table])
    assert text.startswith("### All methods\n")
    assert "| 3 seeds |" in text
    assert "nan" not in text
    path.write_text("method,seed,verbmem,utility\nnpo,,0.0,0.9\nnpo,,0.5,0.1\n")
    (unnumbered,) = read(path)
    assert unnumbered.rows[0].without is not None
    assert unnumbered.rows[0].without.seeds == 2


@pytest.mark.parametrize(
    ("columns", "heading"), [("model", "### a"), ("dataset", "### a"), ("model,dataset", "### a on b")]
)
def test_the_heading_says_of_model_and_data_set_what_is_known(tmp_path: Path, columns: str, heading: str) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(f"method,{columns},verbmem,utility\nnpo,{'a,b' if ',' in columns else 'a'},0.1,0.9\n")
    assert markdown(read(path)).splitlines()[0] == heading


def test_a_table_of_losses_alone_is_shown_and_judged_by_nothing(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,forget_loss,retain_loss\nNo-unlearn,0.03,0.01\nsimnpo,7.0,0.1\n")
    (table,) = read(path)
    entry = table.rows[0].without
    assert entry is not None
    assert (entry.success, entry.values["forget_loss"].mean) == (None, 7.0)


def test_the_last_row_of_a_table_without_a_final_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("method,verbmem,utility\nnpo,0.1,0.9\nga,0.2,0.8")
    (table,) = read(path)
    assert [row.method for row in table.rows] == ["npo", "ga"]


def test_a_success_with_lost_seeds_is_no_plain_yes(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    good = {"verbmem": 0.05, "utility": 0.7, "truth_ratio": 0.4}
    rows = [trial(f"0000{seed}", 6.0, 0.5, **good, seed=seed) for seed in (0, 1)]
    rows.append(trial("00002", None, None, seed=2, status="diverged"))
    tables = read(make_sweep(rows, baseline=BASELINE))
    assert "| yes (2 of 3 seeds succeed, 1 lost) |" in markdown(tables)
    cells = list(csv.DictReader(io.StringIO(comma_separated(tables))))
    assert {(row["seeds"], row["lost"], row["success"]) for row in cells if row["method"] == "ngdiff"} == {
        ("2", "1", "")
    }


@pytest.mark.parametrize(
    ("seeds", "outcome"),
    [
        ([(0.0, 0.7), (0.0, 0.7), (0.25, 0.7)], "2 of 3 seeds succeed"),
        ([(0.0, 0.0), *[(0.0, 0.75)] * 9], "9 of 10 seeds succeed"),
        ([(0.0, 0.7), (0.0, None), (0.0, None)], "yes (1 of 3 seeds succeeds, 2 not judged)"),
        ([(0.5, 0.7), (0.05, None), (0.05, None)], "no (1 of 3 seeds misses a threshold, 2 not judged)"),
        ([(0.5, 0.7), (0.5, 0.7)], "no"),
        ([(0.05, 0.7), (0.05, 0.7)], "yes"),
        ([(0.05, None), (0.05, None)], "–"),
    ],
)
def test_a_success_of_some_seeds_says_of_how_many(
    make_sweep: Callable[..., Path],
    trial: Callable[..., Row],
    seeds: list[tuple[float, float | None]],
    outcome: str,
) -> None:
    """Of the means alone each of the first two would be a success."""
    rows = [
        trial(f"{seed:05d}", 6.0, 0.5, verbmem=verbmem, utility=utility, truth_ratio=0.4, seed=seed)
        for seed, (verbmem, utility) in enumerate(seeds)
    ]
    (table,) = tables = read(make_sweep(rows, baseline=BASELINE))
    entry = table.rows[0].without
    assert entry is not None
    assert (entry.outcome, entry.success) == (outcome, {"yes": True, "no": False}.get(outcome))
    assert f"| {outcome} |" in markdown(tables)


def test_a_metric_of_some_seeds_says_of_how_many(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, utility=None if seed else 0.7, verbmem=0.05, seed=seed) for seed in range(3)]
    tables = read(make_sweep(rows, baseline=BASELINE))
    assert "0.7 (1 of 3 seeds)" in markdown(tables)
    cells = list(csv.DictReader(io.StringIO(comma_separated(tables))))
    measured = {row["metric"]: row["seeds_measured"] for row in cells if row["method"] == "ngdiff"}
    assert (measured["utility"], measured["verbmem"]) == ("1", "3")


def test_what_cannot_be_is_not_judged(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, verbmem=0.05, utility=70.0, truth_ratio=0.6, seed=seed) for seed in range(3)]
    baseline = BASELINE | {"truth_ratio": 0.7}
    entry = read(make_sweep(rows, baseline=baseline))[0].rows[0].without
    assert entry is not None
    assert (entry.success, entry.values["utility"].met, entry.values["verbmem"].met) == (None, None, True)


def test_a_mean_meets_a_bound_that_every_seed_meets(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    """Rounding puts the mean of three equal numbers one digit below them."""
    share = 0.7 * 0.5
    rows = [trial(f"{seed}", 6.0, 0.5, verbmem=0.05, utility=share, truth_ratio=0.6, seed=seed) for seed in range(3)]
    entry = read(make_sweep(rows, baseline=BASELINE | {"utility": 0.5, "truth_ratio": 0.7}))[0].rows[0].without
    assert entry is not None
    assert (entry.outcome, entry.values["utility"].met) == ("yes", True)


def test_equal_seeds_do_not_deviate(make_sweep: Callable[..., Path], trial: Callable[..., Row]) -> None:
    rows = [trial(f"{seed}", 6.0, 0.5, verbmem=0.1 / 3, utility=0.7, seed=seed) for seed in range(3)]
    entry = read(make_sweep(rows, baseline=BASELINE))[0].rows[0].without
    assert entry is not None
    assert {value.deviation for value in entry.values.values()} == {0.0}


def test_the_csv_has_the_unrounded_means(table: ComparisonTable) -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated([table]))))
    (cell,) = [
        row for row in rows if row["method"] == "ngdiff" and row["auto_lr"] == "off" and row["metric"] == "utility"
    ]
    assert float(cell["mean"]) == pytest.approx(0.65, abs=1e-15)
    assert (cell["seeds"], cell["meets_threshold"], cell["success"]) == ("2", "True", "True")


NASTY = ComparisonTable(
    "a_b & 50%",
    "<tofu>",
    "target key 0x_1",
    ("my_metric",),
    None,
    (MethodRow("x|y_{z}~^\\#$", Entry("lr 1", 1, 0, {"my_metric": Value(0.5, None, True)}, True, "yes"), None),),
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


def test_a_comparison_of_a_real_run_in_every_format() -> None:
    tables = read(GOLDEN)
    for write in FORMATS.values():
        text = write(tables)
        assert "ngdiff" in text
        assert "nan" not in text.lower().split()


def test_a_csv_of_losses_alone_joins_a_sweep_in_its_bounds(
    make_sweep: Callable[..., Path], trial: Callable[..., Row], tmp_path: Path
) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("model,dataset,method,lr,forget_loss,retain_loss\ntiny-phi,authors,npo,1e-4,5.0,0.5\n"
                    "tiny-phi,authors,npo,1e-3,7.0,6.0\n")  # fmt: skip
    (table,) = read(make_sweep([trial("00000", 1.0, 1.0)]), path)
    chosen = {row.method: row.without for row in table.rows}
    assert chosen["npo"] is not None
    assert chosen["npo"].label == "lr 1e-4", "of a box of 8 x 8 it dominates 5 * 7.5, the other 7 * 2"
