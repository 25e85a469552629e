"""The report of learning-rate studies: what it says of one, of several together, and of one with a foreign table."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.report import write_report

GOLDEN = Path(__file__).parents[1] / "data" / "golden_sweep"
MakeSweep = Callable[..., Path]
MakeRow = Callable[..., dict[str, object]]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study, the same one on another data set, and a row from elsewhere without a seed."""
    folder = tmp_path_factory.mktemp("merged")
    other = Path(shutil.copytree(GOLDEN, folder / "other"))
    trials = other / "trials.csv"
    trials.write_text(trials.read_text().replace(",authors,", ",tofu,"))
    theirs = folder / "theirs.csv"
    theirs.write_text("method,forget_loss,retain_loss,name\nNPO,6.0,0.4,best\n")
    write_report(folder / "out", [GOLDEN, other, theirs])
    return folder / "out", (folder / "out" / "report.html").read_text()


def test_every_data_set_has_its_own_verdict_and_tuning_curve(merged: tuple[Path, str]) -> None:
    out, page = merged
    curves = {path.stem for path in (out / "figures").glob("tuning-curve*.svg")}
    assert curves == {
        f"tuning-curve_tiny-phi_{dataset}_{method}_clip-fresh"
        for dataset in ("authors", "tofu")
        for method in ("gdiff", "ngdiff")
    }
    for dataset in ("authors", "tofu"):
        assert f"ngdiff on tiny-phi, {dataset}, AutoLR clip/fresh against the best single lr" in page
        assert f"tiny-phi, {dataset}: all trials of an arm against the front of all arms" in page


def test_methods_keep_their_names_and_pooled_fronts_are_no_test(merged: tuple[Path, str]) -> None:
    page = merged[1]
    assert "gdiff on tiny-phi, authors: nothing can be concluded" in page
    assert "Gdiff" not in page
    fronts = page[page.index('id="fronts"') : page.index('id="compute"')]
    assert "This is no test" in fronts
    assert "trials" in re.findall(r"<th[^>]*>([^<]*)</th>", fronts)


def test_a_study_of_which_everything_diverged_says_so_and_names_no_best_rate(
    make_sweep: MakeSweep, trial: MakeRow
) -> None:
    rates = enumerate((1e-4, 1e-3))
    rows = [trial(f"{i}", None, None, lr=lr, status="diverged", error="nan") for i, lr in rates]
    out = make_sweep(rows, settings={"sampler": "grid", "trials": 2})
    write_report(out)
    page = (out / "report.html").read_text()
    assert "nothing is attained at any of 2 learning rates; 2 trials diverged or stopped" in page
    assert "best at lr" not in page


def test_no_two_elements_of_a_merged_page_share_an_id(merged: tuple[Path, str]) -> None:
    ids = re.findall(r'\sid="([^"]+)"', merged[1])
    assert len(ids) == len(set(ids)) > 100


def test_a_row_without_a_seed_joins_the_frontier_and_not_the_study(merged: tuple[Path, str]) -> None:
    out, page = merged
    assert "theirs/best" in {item["trial_id"] for item in json.loads((out / "pareto.json").read_text())["front"]}
    fronts = page[page.index('id="fronts"') : page.index('id="compute"')]
    assert "gdiff, fixed lr" in fronts
    assert "NPO" not in fronts


def test_a_grid_without_autolr_has_its_rates_and_no_verdict(make_sweep: MakeSweep, trial: MakeRow) -> None:
    rows = [trial(f"{i}", 4.0 + i, 0.5, lr=lr) for i, lr in enumerate((1e-4, 1e-3, 1e-2))]
    out = make_sweep(rows, settings={"sampler": "grid", "trials": 3})
    write_report(out)
    page = (out / "report.html").read_text()
    # Cost 0.5, 0.375 and 0.25 of a forget axis of 8, by 0.0625 of the retain axis: only the last is within 5%.
    assert "best at lr 0.01; within 5% of it: only lr 0.01, of 3 learning rates" in page
    assert 'id="auto-lr"' not in page
    assert 'id="fronts"' not in page, "one arm has nothing to stand against"


def test_the_file_of_the_frontier_has_no_links_that_lead_nowhere(make_sweep: MakeSweep, trial: MakeRow) -> None:
    out = make_sweep([trial("a", 4.0, 0.5)])
    write_report(out)
    assert 'href="#trial' in (out / "report.html").read_text()
    assert "#trial" not in (out / "pareto.svg").read_text()
