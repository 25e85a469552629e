"""The report of one or several learning-rate studies, also with an external table."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, trial, without_rendering
from tests.conftest import GOLDEN

pytestmark = pytest.mark.usefixtures("blank_figures")


def page_of(out: Path, *sources: Path) -> str:
    write_report(out, sources)
    return (out / "report.html").read_text()


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Merge a study, a copy on another data set that lacks a trial, and an external row without a seed."""
    folder = tmp_path_factory.mktemp("merged")
    other = Path(shutil.copytree(GOLDEN, folder / "other"))
    trials = other / "trials.csv"
    head, _, *rows = trials.read_text().splitlines(keepends=True)
    trials.write_text("".join([head, *rows]).replace(",authors,", ",tofu,"))
    theirs = folder / "theirs.csv"
    theirs.write_text("method,forget_loss,retain_loss,name\nNPO,6.0,0.4,best\n")
    with without_rendering():
        return folder / "out", page_of(folder / "out", GOLDEN, other, theirs)


def test_every_data_set_has_its_own_verdict_tuning_curve_answer_and_frontier(merged: tuple[Path, str]) -> None:
    out, page = merged
    found = json.loads((out / "pareto.json").read_text())
    assert [(item["dataset"], bool(item["front"])) for item in found["places"]] == [("authors", True), ("tofu", True)]
    assert found["hypervolume"] is None
    figures = {path.stem for path in (out / "figures").glob("*.png")}
    for place, dataset in zip(found["places"], ("authors", "tofu"), strict=True):
        assert f"ngdiff on tiny-phi, {dataset}, AutoLR gen-clip/fresh" in page
        section = page[page.index(f"<h2>tiny-phi on {dataset}</h2>") :]
        assert f"<h3>{place['answer']['headline']}" in section[:200]
        assert place["answer"]["outcome"] == "missed"
        methods = ("gdiff-c-0-5", "gdiff-c-0-9", "ngdiff")
        curves = {f"tuning-curve_tiny-phi_{dataset}_{method}_gen-clip-fresh" for method in methods}
        assert curves <= figures
        assert {f"pareto_tiny-phi_{dataset}", f"gradients_over_steps_tiny-phi_{dataset}"} <= figures
    assert len([name for name in figures if name.startswith("tuning-curve")]) == 6
    assert not (out / "pareto.png").exists()
    assert "2 unlearning tasks" in page
    assert "frontiers lacks a trial" in page


def test_a_row_without_a_seed_joins_the_frontier_and_not_the_study(merged: tuple[Path, str]) -> None:
    out, page = merged
    assert "gdiff on tiny-phi, authors: " in page
    assert "Gdiff" not in page
    assert "theirs/best" in {item["trial_id"] for item in json.loads((out / "pareto.json").read_text())["front"]}
    fronts = page[page.index('id="fronts"') : page.index('id="compute"')]
    assert ("gdiff, fixed lr" in fronts, "NPO" in fronts) == (True, False)
    assert "not a test" in fronts
    assert "trials" in re.findall(r"<th[^>]*>([^<]*)</th>", fronts)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 100


def test_a_grid_without_autolr_has_its_rates_and_no_verdict(make_sweep: MakeSweep) -> None:
    """The hypervolume at the last rate is 4/3 times that of the next rate, so only the last is within 5% of it."""
    rows = [trial(f"{i}", 4.0 + i, 0.5, lr=lr) for i, lr in enumerate((1e-4, 1e-3, 1e-2))]
    page = page_of(make_sweep(rows, settings={"sampler": "grid", "trials": len(rows)}))
    assert "best of 3 learning rates: lr 0.01" in page
    assert 'id="auto-lr"' not in page
    assert 'id="fronts"' not in page, "one arm has nothing to stand against"
