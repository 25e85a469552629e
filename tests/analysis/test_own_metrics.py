"""A table with unknown metrics: the analysis only needs the column dictionary."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.comparison.comparison import comparison_data, comparison_sources
from analysis.report.comparison_text import markdown
from analysis.report.report import write_report
from analysis.tables.columns import Columns
from trainables.metrics.registry import LOSS_METRICS, METRICS

SCORE: dict[str, Any] = {"role": "metric", "unit": "points", "bounds": [0, 10], "primary": True}
COLUMNS: dict[str, dict[str, Any]] = {
    "warmth": {"role": "method", "label": "warmth"},
    "damage": {"role": "loss", "label": "damage", "unit": "nats per haiku", "of": "forget", "direction": "max"},
    "harm": {"role": "loss", "label": "harm", "unit": "nats per haiku", "of": "retain", "direction": "min"},
    "grudge": SCORE | {"label": "grudges held", "direction": "min", "of": "forget", "threshold": {"below": 2}},
    "politeness": SCORE
    | {"label": "politeness to strangers", "direction": "max", "of": "retain", "threshold": {"share": 0.5}},
    "small_talk": {"role": "metric", "label": "small talk", "bounds": [0, None], "of": "retain"},
}
OBJECTIVES = [
    {"name": "damage", "direction": "max", "low": 0, "high": 5, "label": "damage (nats per haiku)"},
    {"name": "politeness", "direction": "max", "low": 0, "high": 10, "label": "politeness to strangers (points)"},
]
LEADING = ("trial_id", "spec_hash", "model", "dataset", "method", "lr", "seed", "warmth", "status")
TRIALS = (
    ("00000", "a", "poet", "haiku", "ga", 1e-4, 0, 0.5, "finished", 4.0, 1.0, 1.0, 6.0, 3.5, "", ""),
    ("00001", "b", "poet", "haiku", "ga", 1e-3, 0, 0.5, "finished", 2.0, 0.5, 3.0, 8.0, 2.5, "", ""),
    ("00002", "c", "poet", "haiku", "npo", 1e-4, 0, 0.5, "finished", 3.0, 0.7, 1.5, 7.0, "", "", ""),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "sweep"
    out.mkdir()
    baseline = {"damage": 0.1, "harm": 0.1, "grudge": 9.0, "politeness": 9.0}
    content = {"format": 2, "name": "manners", "columns": COLUMNS, "objectives": OBJECTIVES, "baseline": baseline}
    (out / "sweep.json").write_text(json.dumps(content | {"random_guess_loss": 5.0, "settings": {"sampler": "grid"}}))
    with (out / "trials.csv").open("w", newline="") as file:
        outcome = ("damage", "harm", "grudge", "politeness", "small_talk", "checkpoint", "error")
        csv.writer(file, lineterminator="\n").writerows([(*LEADING, *outcome), *TRIALS])
    lines = [f"{trial[0]},{step},{step},{trial[9]},{trial[12]}\n" for trial in TRIALS for step in (1, 2, 3)]
    (out / "history.csv").write_text("trial_id,step,epoch,damage,politeness\n" + "".join(lines))
    return out


def test_the_report_has_its_axes_units_directions_and_thresholds(folder: Path) -> None:
    write_report(folder)
    page = (folder / "report.html").read_text()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for expected in ("from 9 to 7 (higher", "grudges held (points) 9 1.5", "✓ met below 2", "✓ met at least 50%"):
        assert expected in text
    headings = re.findall(r'<button type="button">([^<]+)</button>', page)
    assert {"damage", "harm", "grudge", "politeness", "small talk", "lr"} <= set(headings)
    assert "warmth" not in headings
    figures = {path.stem: path.read_text() for path in (folder / "figures").glob("*.svg")}
    assert {"damage", "politeness", "nats per haiku, log scale", "points"} <= _words(figures["metrics_over_steps"])
    assert {"ga: grudge", "ga: politeness"} <= _words(figures["learning_rate_sensitivity"])
    (data,) = re.findall(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    charts = {chart["title"]: chart["lines"] for chart in json.loads(data)["charts"]}
    assert charts["Losses (nats)"] == [["damage", "forget"], ["harm", "retain"]]
    assert charts["points"] == [["grudge", "grudge"], ["politeness", "politeness"]]


def test_the_comparison_judges_it_and_says_by_what(folder: Path) -> None:
    tables = comparison_data(comparison_sources([folder], Columns()))
    assert tables[0].metrics == ("grudge", "politeness", "damage", "harm", "small_talk")
    lines = markdown(tables).splitlines()
    assert lines[2] == "| Method | Grudge | Politeness | Damage | Harm | Small talk | Success | Configuration |"
    assert "| **1** | **6** |" in lines[5]
    assert ["grudge below 2" in lines[-1], "politeness at least 50%" in lines[-1]] == [True, True]


def test_no_file_of_the_analysis_names_a_metric() -> None:
    """No code or template names a metric, except for the losses in landscape.csv and the files of other projects."""
    names = "|".join(name for name in METRICS if name not in LOSS_METRICS)
    for path in Path(analysis.__file__).parent.rglob("*"):
        if path.suffix in (".py", ".js", ".j2") and path.name != "published.py":
            found = re.findall(rf"""["'](?:{names})["']""", path.read_text(encoding="utf-8"))
            assert not found, f"{path.name} names {found}"


def _words(svg: str) -> set[str]:
    """Return the texts of a figure, which are drawn as outlines and repeated in comments."""
    return set(re.findall(r"<!-- (.*?) -->", svg))
