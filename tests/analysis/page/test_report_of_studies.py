"""The report of learning-rate studies: what it says of one, of several together, and of one with a foreign table."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from analysis.page.report import write_report
from tests.analysis.conftest import MakeSweep, trial
from tests.conftest import GOLDEN


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


def test_every_data_set_has_its_own_answer_and_frontier(merged: tuple[Path, str]) -> None:
    out, page = merged
    for dataset in ("authors", "tofu"):
        section = page[page.index(f"<h2>tiny-phi on {dataset}</h2>") :]
        assert "<h3>No good trade-off: none of 36 trials" in section[:200]
        assert (out / "figures" / f"pareto_tiny-phi_{dataset}.png").is_file()
        assert (out / "figures" / f"gradients_over_steps_tiny-phi_{dataset}.png").is_file()
    assert "This report is on 2 problems: tiny-phi, authors; tiny-phi, tofu." in page
    assert not (out / "pareto.png").exists()
    found = json.loads((out / "pareto.json").read_text())
    assert found["hypervolume"] is None
    assert [(item["dataset"], bool(item["front"])) for item in found["places"]] == [("authors", True), ("tofu", True)]


def test_a_sweep_of_another_data_set_is_held_against_its_own_model(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 7.0, 0.9)], name="one")
    two = make_sweep([trial("0", 6.0, 0.5, dataset="tofu")], name="two", baseline={"retain_loss": 0.25})
    write_report(tmp_path / "out", [one, two])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "retain loss from 0.05 to 0.9" in page
    assert "retain loss from 0.25 to 0.5" in page
    assert "other No-unlearn models" not in page


def test_sweeps_of_one_problem_with_other_baselines_hold_each_trial_against_its_own(
    make_sweep: MakeSweep, tmp_path: Path
) -> None:
    one = make_sweep([trial("0", 7.0, 0.9, verbmem=0.05)], name="one")
    two = make_sweep([trial("0", 1.0, 0.9)], name="two", baseline={"retain_loss": 0.25})
    write_report(tmp_path / "out", [one, two])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Against the model before unlearning: forget loss from 0.04 to 7" in page
    assert "The sweeps have other No-unlearn models: each trial is held against its own" in page
    assert json.loads((tmp_path / "out" / "pareto.json").read_text())["baseline"] is None
    assert "verbatim memorisation of the forget set" in page


def test_what_the_study_left_out_is_on_the_page(tmp_path: Path) -> None:
    """Without one of the trials of a front, that front does not count."""
    out = Path(shutil.copytree(GOLDEN, tmp_path / "sweep"))
    lines = (out / "trials.csv").read_text().splitlines(keepends=True)
    (out / "trials.csv").write_text("".join(lines[:1] + lines[2:]))
    write_report(out)
    assert "In the learning-rate study, 1 front of" in (out / "report.html").read_text()


def test_methods_keep_their_names_and_pooled_fronts_are_no_test(merged: tuple[Path, str]) -> None:
    page = merged[1]
    assert "gdiff on tiny-phi, authors: nothing can be concluded" in page
    assert "Gdiff" not in page
    fronts = page[page.index('id="fronts"') : page.index('id="compute"')]
    assert "This is no test" in fronts
    assert "trials" in re.findall(r"<th[^>]*>([^<]*)</th>", fronts)


def test_a_study_of_which_everything_diverged_says_so_and_names_no_best_rate(make_sweep: MakeSweep) -> None:
    rates = enumerate((1e-4, 1e-3))
    rows = [trial(f"{i}", None, None, lr=lr, status="diverged", error="nan") for i, lr in rates]
    out = make_sweep(rows, settings={"sampler": "grid", "trials": 2})
    write_report(out)
    page = (out / "report.html").read_text()
    assert "nothing is attained at any of 2 learning rates; 2 trials diverged" in page
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


def test_a_grid_without_autolr_has_its_rates_and_no_verdict(make_sweep: MakeSweep) -> None:
    rows = [trial(f"{i}", 4.0 + i, 0.5, lr=lr) for i, lr in enumerate((1e-4, 1e-3, 1e-2))]
    out = make_sweep(rows, settings={"sampler": "grid", "trials": 3})
    write_report(out)
    page = (out / "report.html").read_text()
    # Cost 0.5, 0.375 and 0.25 of a forget axis of 8, by 0.0625 of the retain axis: only the last is within 5%.
    assert "best at lr 0.01, at the edge of the rates tried; within 5% of it: only lr 0.01, of 3 learning rates" in page
    assert 'id="auto-lr"' not in page
    assert 'id="fronts"' not in page, "one arm has nothing to stand against"


def test_the_file_of_the_frontier_has_no_links_that_lead_nowhere(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("a", 4.0, 0.5)])
    write_report(out)
    assert 'href="#trial' in (out / "report.html").read_text()
    assert "#trial" not in (out / "pareto.svg").read_text()
