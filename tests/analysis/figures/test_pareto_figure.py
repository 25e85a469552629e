"""The frontier figure: its content, and that it can be drawn."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from analysis.figures.pareto import ParetoData, pareto_data
from analysis.figures.save import save_figure
from analysis.report.render import note_text
from analysis.report.report import draw_frontier
from analysis.tables.note import note
from tests.analysis.conftest import MakeSweep, tables_of, trial


def _data(out: Path) -> ParetoData:
    return pareto_data(*tables_of(out))


def test_a_frontier_figure_has_points_a_staircase_and_landmarks(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 6.0, 4.0), trial("1", 5.0, 5.0, method="gdiff"), trial("2", 4.0, 2.0), trial("3", 9.0, 90.0)]
    data = _data(make_sweep(rows, settings={"trials": 16}))
    columns = ["trial_id", "x", "y", "on_front"]
    found = {series.name: list(series.points[columns].itertuples(index=False, name=None)) for series in data.methods}
    # Trial 3 is outside the bounds, so it is drawn on them.
    assert found == {
        "gdiff": [("1", 5.0, 5.0, False)],
        "ngdiff": [("0", 6.0, 4.0, True), ("2", 4.0, 2.0, True), ("3", 8.0, 8.0, True)],
    }
    bounds = ((0.0, 8.0), (0.0, 8.0))
    assert note("models_beyond_bounds", count=1, every_epoch=False, bounds=bounds) in data.notes
    # The line starts and ends at a worst bound.
    assert data.staircase == ((8.0, 8.0), (6.0, 8.0), (6.0, 4.0), (4.0, 4.0), (4.0, 2.0), (0.0, 2.0))
    assert (data.corner, data.baseline, data.x.guess) == ((0.0, 8.0), (0.04, 0.05), 8.0)
    assert (mark := data.highlight) is not None
    assert (mark.position, mark.model.name, mark.recommended) == ((6.0, 4.0), "trial 0", False)
    assert data.title == "tiny-phi on authors"
    assert note_text(data.subtitle) == "hypervolume 0.500 · 4 of 16 trials so far, 3 on the frontier"


def test_a_merged_model_does_not_count_as_a_trial_that_has_ended(make_sweep: MakeSweep) -> None:
    merged = trial("merged-000", 6.0, 3.0) | {"phase": "merge", "merges": "0,1", "merge_scale": 1.0}
    rows = [trial("0", 6.0, 4.0), trial("1", 4.0, 2.0), merged]
    facts = dict(_data(make_sweep(rows, settings={"trials": 3})).subtitle.facts)
    assert (facts["ended"], facts["planned"], facts["external"]) == (2, 3, 0)


def test_more_than_two_objectives_have_no_staircase_and_the_figure_says_so(make_sweep: MakeSweep) -> None:
    two = [{"name": name, "direction": "min", "low": 0, "high": 8} for name in ("retain_loss", "forget_loss")]
    three = [*two, {"name": "utility", "direction": "max", "low": 0, "high": 1}]
    rows = [trial("0", 4.0, 4.0, utility=0.5), trial("1", 4.0, 5.0, utility=0.75)]
    data = _data(make_sweep(rows, objectives=three))
    facts = dict(data.subtitle.facts)
    assert (data.staircase, facts["members"]) == ((), 2)
    assert facts["hypervolume"] == pytest.approx(0.5 * (0.5 * 0.5 + 0.375 * 0.75 - 0.375 * 0.5))
    assert note("more_objectives", names=("retain_loss", "forget_loss", "utility")) in data.notes


@pytest.mark.parametrize(
    ("retain", "scale"), [([0.01, 3.0], "log"), ([1e-5, 7.0], "log"), ([0.0, 3.0], "linear"), ([0.5, 3.0], "linear")]
)
def test_a_loss_to_be_minimized_has_a_log_axis_if_it_spans_a_decade(
    make_sweep: MakeSweep, retain: list[float], scale: str
) -> None:
    data = _data(make_sweep([trial(str(i), 6.0 - i, loss) for i, loss in enumerate(retain)], baseline={}))
    assert (data.x.scale, data.y.scale) == ("linear", scale)
    assert all(data.y.limits[0] <= loss < data.y.limits[1] for loss in retain)
    ticks = draw_frontier(data).axes[0].get_yticks()
    assert 3 <= sum(data.y.limits[0] <= tick <= data.y.limits[1] for tick in ticks) <= 12


def test_the_saved_figure_is_1600_by_1100_pixels_and_a_whole_svg(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 4.0, 0.1), trial("1", 5.0, 3.0)])
    documents = [save_figure(draw_frontier(_data(out)), out, "pareto") for _ in range(2)]
    assert documents[0] == documents[1]
    with Image.open(io.BytesIO((out / "pareto.png").read_bytes())) as image:
        assert image.size == (1600, 1100)
    svg = (out / "pareto.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
