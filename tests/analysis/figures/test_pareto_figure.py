"""The frontier figure: its content, and that it can be drawn."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from PIL import Image

from analysis.figures.panels import PanelFigure
from analysis.figures.pareto import pareto_figure
from analysis.figures.save import save_figure
from analysis.report.render import note_text
from analysis.report.report import draw_frontier
from analysis.tables.note import note
from analysis.tables.sources import read_sources
from tests.analysis.conftest import MakeSweep, tables_of, trial


def _data(out: Path) -> PanelFigure:
    return pareto_figure(*tables_of(out))


def _facts(data: PanelFigure) -> dict[str, object]:
    assert data.subtitle is not None
    return dict(data.subtitle.facts)


def test_a_frontier_figure_has_points_a_staircase_and_landmarks(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 6.0, 4.0), trial("1", 5.0, 5.0, method="gdiff"), trial("2", 4.0, 2.0), trial("3", 9.0, 90.0)]
    data = _data(make_sweep(rows, settings={"trials": 16}))
    (panel,) = data.panels
    found = {(line.name, line.style): (line.xs, line.ys) for line in panel.lines}
    assert found.pop(("gdiff", "pale")) == ((5.0,), (5.0,))
    # Trial 3 is outside the bounds, so it is drawn on them.
    assert found.pop(("ngdiff", "large")) == ((6.0, 4.0, 8.0), (4.0, 2.0, 8.0))
    assert found.pop(("target (before unlearning)", "landmark")) == ((0.04,), (0.05,))
    bounds = ((0.0, 8.0), (0.0, 8.0))
    assert note("models_beyond_bounds", count=1, every_epoch=False, bounds=bounds) in data.notes
    # The line starts and ends at a worst bound.
    stairs = ((8.0, 6.0, 6.0, 4.0, 4.0, 0.0), (8.0, 8.0, 4.0, 4.0, 2.0, 2.0))
    assert found.pop(("attained frontier", "line")) == stairs
    assert [(band.xs, band.lows, set(band.highs)) for band in panel.bands] == [(*stairs, {8.0})]
    assert [(guide.axis, guide.value) for guide in panel.guides] == [("x", 8.0), ("y", 8.0)]
    (((name, style), position),) = found.items()
    assert (style, position) == ("ring", ((6.0,), (4.0,)))
    assert " ".join(name.split()).startswith("chosen, but not recommended: trial 0 ")
    assert data.title == "tiny-phi on authors"
    assert data.subtitle is not None
    assert note_text(data.subtitle) == "hypervolume 0.500 · 4 of 16 trials so far, 3 on the frontier"


@pytest.mark.parametrize(("epoch_budget", "text"), [(6, "2 trials"), (7, "2 of 16 trials so far")])
def test_a_search_that_used_up_its_epoch_budget_is_complete(
    make_sweep: MakeSweep, epoch_budget: int, text: str
) -> None:
    rows = [trial("0", 6.0, 4.0, epochs_done=4), trial("1", 4.0, 2.0, epochs_done=2)]
    data = _data(make_sweep(rows, settings={"trials": 16, "epoch_budget": epoch_budget}))
    assert data.subtitle is not None
    assert note_text(data.subtitle) == f"hypervolume 0.500 · {text}, 2 on the frontier"


def test_a_reused_trial_does_not_use_the_epoch_budget(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 6.0, 4.0, epochs_done=4), trial("1", 4.0, 2.0, epochs_done=2, reused_from="00001 of runs/old")]
    sweep = make_sweep(rows, settings={"trials": 16, "epoch_budget": 5})
    assert "2 of 16 trials so far" in note_text(_data(sweep).subtitle)


def test_the_epoch_budget_of_each_sweep_counts(make_sweep: MakeSweep) -> None:
    settings = {"trials": 16, "epoch_budget": 6}
    paths = [make_sweep([trial("0", 6.0, 4.0), trial("1", 4.0, 2.0)], name=name, settings=settings) for name in "ab"]
    sources = read_sources(paths, out=paths[0])
    assert (len(sources.table.searched), sources.table.planned(sources.sweep)) == (4, 4)


def test_a_single_run_beside_a_sweep_does_not_use_its_epoch_budget(make_sweep: MakeSweep, tmp_path: Path) -> None:
    sweep = make_sweep([trial("0", 6.0, 4.0, epochs_done=4)], settings={"trials": 16, "epoch_budget": 6})
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.json").write_text(json.dumps(trial("1", 4.0, 2.0, epochs_done=2)))
    sources = read_sources([sweep, run], out=sweep)
    assert sources.table.planned(sources.sweep) == 16


def test_tables_of_other_programs_may_lack_the_epochs_of_trials(make_sweep: MakeSweep) -> None:
    sweep = make_sweep([trial("0", 6.0, 4.0)], settings={"trials": 16, "epoch_budget": 3})
    trials = pd.read_csv(sweep / "trials.csv", dtype=str)
    trials.drop(columns=["reused_from", "epochs_done"]).to_csv(sweep / "trials.csv", index=False)
    assert _facts(_data(sweep))["planned"] == 16


def test_a_merged_model_does_not_count_as_a_trial_that_has_ended(make_sweep: MakeSweep) -> None:
    merged = trial("merged-000", 6.0, 3.0) | {"phase": "merge", "merges": "0,1", "merge_scale": 1.0}
    rows = [trial("0", 6.0, 4.0), trial("1", 4.0, 2.0), merged]
    facts = _facts(_data(make_sweep(rows, settings={"trials": 3})))
    assert (facts["ended"], facts["planned"], facts["external"]) == (2, 3, 0)


def test_more_than_two_objectives_have_no_staircase_and_the_figure_says_so(make_sweep: MakeSweep) -> None:
    two = [{"name": name, "direction": "min", "low": 0, "high": 8} for name in ("retain_loss", "forget_loss")]
    three = [*two, {"name": "utility", "direction": "max", "low": 0, "high": 1}]
    rows = [trial("0", 4.0, 4.0, utility=0.5), trial("1", 4.0, 5.0, utility=0.75)]
    data = _data(make_sweep(rows, objectives=three))
    facts = _facts(data)
    assert facts["members"] == 2
    assert "attained frontier" not in {line.name for line in data.panels[0].lines}
    assert facts["hypervolume"] == pytest.approx(0.5 * (0.5 * 0.5 + 0.375 * 0.75 - 0.375 * 0.5))
    assert note("more_objectives", names=("retain_loss", "forget_loss", "utility")) in data.notes


@pytest.mark.parametrize(
    ("retain", "scale"), [([0.01, 3.0], "log"), ([1e-5, 7.0], "log"), ([0.0, 3.0], "linear"), ([0.5, 3.0], "linear")]
)
def test_a_loss_to_be_minimized_has_a_log_axis_if_it_spans_a_decade(
    make_sweep: MakeSweep, retain: list[float], scale: str
) -> None:
    data = _data(make_sweep([trial(str(i), 6.0 - i, loss) for i, loss in enumerate(retain)], baseline={}))
    (panel,) = data.panels
    assert panel.y_limits is not None
    low, high = panel.y_limits
    assert (panel.x_scale, panel.y_scale) == ("linear", scale)
    assert all(low <= loss < high for loss in retain)
    ticks = draw_frontier(data).axes[0].get_yticks()
    assert 3 <= sum(low <= tick <= high for tick in ticks) <= 12


def test_the_saved_figure_is_1600_by_1100_pixels_and_a_whole_svg(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 4.0, 0.1), trial("1", 5.0, 3.0)])
    documents = [save_figure(draw_frontier(_data(out)), out, "pareto") for _ in range(2)]
    assert documents[0] == documents[1]
    with Image.open(io.BytesIO((out / "pareto.png").read_bytes())) as image:
        assert image.size == (1600, 1100)
    svg = (out / "pareto.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
