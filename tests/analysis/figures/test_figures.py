"""The figures of a report except the frontier: their content, and that they can be drawn from any table."""

from __future__ import annotations

import cmath
import io
import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

from analysis.figures.ablation import ablation_data
from analysis.figures.auto_lr import auto_lr_data, lr_over_steps
from analysis.figures.courses import final_metrics_data, gradients_data, metrics_data
from analysis.figures.gallery import gallery
from analysis.figures.gradient_plane import gradient_plane_data, plane
from analysis.figures.landscape import landscape_data
from analysis.figures.over_options import over_options_data
from analysis.figures.panels import draw_panels
from analysis.figures.pareto import pareto_figure
from analysis.figures.save import save_figure, svg_text
from analysis.tables.note import note
from analysis.tables.sources import Sources, read_source
from analysis.tables.tasks import by_task
from tests.analysis.conftest import MakeSweep, report, trial

T = TypeVar("T")
NAMES = {
    *("learning_rate_sensitivity", "courses_by_learning_rate", "auto_lr_ablation", "auto_lr_log", "loss_landscape"),
    *("metrics_over_steps", "gradients_over_steps", "gradient_plane", "anytime_hypervolume"),
    "trade_off_over_options",
}
UPDATES = (
    "trial_id,step,eta,eta_star,eta_new,slope,curvature,loss_zero,fallback,clipped\n"
    "3,1,0.0001,0.0003,0.0002,3,10000,0.5,,True\n"
    "3,11,0.0002,,0.0002,-1,10000,0.5,no descent,False\n"
)


def _landscape(slope: float = 2.0, curvature: float = 1000.0, zero: float = 0.5) -> str:
    lines = ["trial_id,step,eta,direction,x,retain_loss,forget_loss,slope,curvature,loss_zero,eta_star"]
    for step, direction in itertools.product((1, 11, 21, 31), ("update", "g_R", "g_F")):
        for x in np.linspace(-0.002, 0.004, 7):
            loss = zero - slope * x + curvature * x * x / 2
            cells = ("2", step, 0.001, direction, x, loss, 3 + 100 * x, slope, curvature, zero, slope / curvature)
            lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def some(data: T | None) -> T:
    assert data is not None
    return data


@pytest.fixture(scope="module")
def sources(make_sweep_once: MakeSweep) -> Sources:
    """ngdiff at two rates and with AutoLR, and gdiff. Trials 0 and 2, and trials 1 and 3, differ only in AutoLR."""
    scores = {"verbmem": 0.2, "utility": 0.8}
    rows = [
        trial("0", 2.0, 0.4, lr=1e-4, **scores),
        trial("1", 4.0, 0.8, lr=1e-3, **scores),
        trial("2", 6.0, 0.5, lr=1e-4, auto_lr="gen-clip", **scores),
        trial("3", 7.0, 0.7, lr=1e-3, auto_lr="gen-clip", **scores),
        trial("4", 3.0, 0.3, method="gdiff", c=0.9, **scores),
        trial("5", 5.0, 0.6, method="gdiff", c=0.1, **scores),
        trial("6", 4.0, 0.4, method="gdiff", c=0.5, **scores),
    ]
    reports = [report(str(i), step, 1.0 + step / 10, 0.1 + step / 100) for i in range(7) for step in (10, 20, 30)]
    out = make_sweep_once(rows, reports)
    columns: dict[str, Any] = {"grad_norm_retain": 3.0, "grad_norm_forget": 4.0, "grad_cosine": -0.5, "c_t": 4 / 7}
    history = pd.read_csv(out / "history.csv").assign(**columns, strange="x")
    history.to_csv(out / "history.csv", index=False)
    (out / "auto_lr.csv").write_text(UPDATES, encoding="utf-8")
    return replace(read_source(out), landscape=pd.read_csv(io.StringIO(_landscape())))


def test_every_figure_is_drawn_as_png_and_svg(sources: Sources, tmp_path: Path) -> None:
    found = {data.name: data for _, data in gallery(by_task(sources)[0])}
    assert set(found) == NAMES
    for name, data in found.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            document = save_figure(draw_panels(data), tmp_path, name)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        # Text is drawn as outlines, and a comment in the SVG repeats it.
        assert data.title in document


def test_a_metric_starts_at_the_model_before_unlearning(sources: Sources) -> None:
    data = some(metrics_data(sources))
    assert [panel.title for panel in data.panels] == ["forget loss", "retain loss"]
    lines = {line.name: line for line in data.panels[0].lines}
    # Trial 3 has costs (1/8, 0.7/8), trial 2 (2/8, 0.5/8): 3 is nearer to the ideal corner.
    (name,) = [name for name in lines if name.startswith("ngdiff")]
    assert name.endswith("(3)")
    assert (lines[name].xs, lines[name].ys) == ((0.0, 10.0, 20.0, 30.0), (0.04, 2.0, 3.0, 4.0))


def test_each_listed_c_has_its_own_line_and_colour(sources: Sources) -> None:
    lines = [line for line in some(metrics_data(sources)).panels[0].lines if line.name.startswith("gdiff")]
    assert [line.name.split(",")[1].strip() for line in lines] == ["c 0.1", "c 0.5", "c 0.9"]
    assert len({line.colour for line in lines}) == 3


def test_a_line_over_c_joins_the_best_trial_of_each_c(sources: Sources) -> None:
    """Trials 5, 6 and 4 have c = 0.1, 0.5 and 0.9. ngdiff has no c, so it is one point."""
    losses, scores = some(over_options_data(sources)).panels
    lines = {line.name: line for line in losses.lines}
    assert lines["gdiff, c 0.1 to 0.5 to 0.9"].xs == (5.0, 4.0, 3.0)
    assert lines["gdiff, c 0.1 to 0.5 to 0.9"].ys == (0.6, 0.4, 0.3)
    assert (lines["ngdiff"].xs, lines["ngdiff"].style) == ((7.0,), "marks")
    assert lines["target (before unlearning)"].xs == (0.04,)
    assert (scores.x_label, scores.y_label) == ("verbmem (ROUGE-L recall)", "utility (ROUGE-L recall)")


def test_the_rate_is_shown_divided_by_the_norm_of_each_gradient(sources: Sources) -> None:
    """The norms are 3 and 4."""
    panels = {panel.title: panel for panel in some(gradients_data(sources)).panels}
    ratios = {title: panel.lines[0].ys[0] for title, panel in panels.items() if title.startswith("learning rate /")}
    assert ratios == {
        "learning rate / norm of the retain gradient": pytest.approx(1e-4 / 3),
        "learning rate / norm of the forget gradient": pytest.approx(1e-4 / 4),
    }


def test_final_metrics_stand_at_their_rates_and_auto_lr_spans_them(sources: Sources) -> None:
    data = some(final_metrics_data(sources))
    titles = [panel.title for panel in data.panels[:2]]
    assert titles == ["ngdiff: forget loss", "ngdiff: retain loss"], "gdiff was tried at one rate"
    panel = data.panels[0]
    lines = {line.style: line for line in panel.lines}
    assert (lines["marks"].xs, lines["marks"].ys) == ((1e-4, 1e-3), (2.0, 4.0))
    assert (lines["dashed"].xs, lines["dashed"].ys) == ((1e-4, 1e-3), (6.5, 6.5))
    assert (panel.bands[0].lows, panel.bands[0].highs) == ((6.0, 6.0), (7.0, 7.0))


def test_the_ablation_is_the_mean_over_pairs(sources: Sources) -> None:
    forget, retain = some(ablation_data(sources)).panels[:2]
    assert forget.y_names == ("ngdiff (2)",)
    assert {line.name: line.xs for line in forget.lines} == {"": (3.0, 6.5), "fixed rate": (3.0,), "AutoLR": (6.5,)}
    assert retain.lines[0].xs == pytest.approx((0.6, 0.6))


def test_an_ablation_without_pairs_compares_the_best_of_each_side(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 0.9, method="gdiff", c=0.1),
        trial("1", 5.0, 0.5, method="gdiff", c=0.2),
        trial("2", 6.0, 0.4, method="gdiff", c=0.3, auto_lr="gen-clip"),
    ]
    data = some(ablation_data(read_source(make_sweep(rows))))
    assert (data.panels[0].y_names, data.panels[0].lines[0].xs) == (("gdiff",), (5.0, 6.0))
    assert data.caption == note("ablation", paired=False, lost=0)


def test_ngdiffs_direction_halves_the_angle_of_the_gradients_drawn(sources: Sources) -> None:
    """The reported mean of c_t differs from the c_t of the mean norms, with which d halves the angle."""
    history = sources.table.history.assign(grad_norm_retain=1.0, grad_norm_forget=9.0, c_t=0.6)
    gdiff, ngdiff = some(gradient_plane_data(replace(sources, table=replace(sources.table, history=history)))).panels
    titles = [panel.title.split("\n") for panel in (gdiff, ngdiff)]
    assert titles == [["gdiff, step 20", "cosine -0.5, c_t 0.6"], ["ngdiff, step 20", "cosine -0.5, c_t 0.9"]]
    retain, forget, direction = (complex(line.xs[1], line.ys[1]) for line in ngdiff.lines)
    assert (abs(retain), abs(forget), abs(direction)) == pytest.approx((1 / 9, 1.0, 1.0))
    assert cmath.phase(forget / direction) == pytest.approx(cmath.phase(direction / retain))


def test_the_plane_of_a_right_angle_and_of_a_conflict() -> None:
    assert plane(3.0, 4.0, 0.0, 0.5) == pytest.approx((0.75, 1j, 0.6 + 0.8j))
    # The gradients are opposed and forgetting has all the weight, so the retain objective rises.
    assert plane(1.0, 1.0, -1.0, 0.0) == pytest.approx((1.0, -1.0, -1.0))
    # Equal weights of opposite gradients cancel.
    assert plane(1.0, 1.0, -1.0, 0.5)[2] == plane(0.0, 0.0, 0.0, 0.5)[2] == 0


def test_a_rate_at_which_every_trial_diverged_is_a_cross_on_the_axis(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 2.0, 0.4, lr=1e-4),
        trial("1", 2.0, 0.4, lr=1e-3),
        trial("2", None, None, lr=1e-3, status="diverged"),
        trial("3", None, None, lr=1e-2, status="diverged"),
    ]
    data = some(final_metrics_data(read_source(make_sweep(rows))))
    assert [panel.absent for panel in data.panels] == [(1e-2,)] * 2
    assert "no finished trial" in svg_text(draw_panels(data))


def test_the_parabola_of_a_quadratic_loss_passes_through_its_measurements(sources: Sources) -> None:
    data = some(landscape_data(sources))
    assert [panel.title for panel in data.panels[:3]] == [f"retain loss, step {step}" for step in (1, 21, 31)]
    measured, along_retain, along_forget, fitted = data.panels[0].lines
    assert [line.name for line in (along_retain, along_forget)] == [
        *("along g_R, retain gradient", "along g_F, forget gradient")
    ]
    at = np.interp(measured.xs, fitted.xs, fitted.ys)
    assert at == pytest.approx(measured.ys, abs=1e-5)
    guides = [(guide.label, guide.value) for guide in data.panels[0].guides]
    assert guides == [("", 0.0), ("eta", 0.001), ("eta*", 0.002)]


def test_auto_lrs_rate_changes_at_the_step_that_was_made_at_it() -> None:
    updates = pd.DataFrame({"step": [1, 11, 21], "eta": [1e-4, 4e-4, 3e-4], "eta_new": [4e-4, 3e-4, 3e-4]})
    reports = pd.DataFrame({"step": [10, 20, 30], "lr": [4e-4, 3e-4, 1e-4]})
    steps, rates = lr_over_steps(updates, reports)
    assert list(zip(steps, rates, strict=True)) == [
        *((0, 1e-4), (1, 1e-4), (1, 4e-4)),  # a horizontal line, then a vertical line
        *((10, 4e-4), (11, 4e-4), (11, 3e-4)),
        *((20, 3e-4), (21, 3e-4), (21, 3e-4)),
        (30, 1e-4),  # annealed after the last update
    ]
    rolled_back = reports.assign(lr=[4e-4, 3e-4, 4e-4], steps_undone=[0, 0, 10])
    assert lr_over_steps(updates, rolled_back)[0][-1] == 21, "the last report has the rate of the restored weights"


def test_an_update_without_a_minimum_is_marked_with_its_reason(sources: Sources) -> None:
    (panel,) = some(auto_lr_data(sources)).panels
    marks = {line.name: (line.xs, line.ys) for line in panel.lines if line.style == "marks"}
    assert marks == {
        "minimiser eta* of the parabola": ((1,), (3e-4,)),
        "rate kept: not a descent direction": ((11,), (2e-4,)),
    }


def test_trials_with_auto_lr_are_filled_if_fixed_rates_are_drawn_too(sources: Sources) -> None:
    (panel,) = pareto_figure(sources.table, sources.sweep).panels
    models = [line for line in panel.lines if line.style in ("large", "pale")]
    found = {filled: {x for line in models if line.filled is filled for x in line.xs} for filled in (True, False)}
    assert found == {True: {6.0, 7.0}, False: {2.0, 3.0, 4.0, 5.0}}, "trials 2 and 3 have AutoLR"
    assert {"filled: AutoLR", "hollow: fixed lr"} <= {line.name for line in panel.lines}


BAD = {"status": "diverged", "error": "nan"}
AUTO = [trial("2", 5.0, 0.01, auto_lr="gen-clip"), trial("3", 6.0, 3.0, auto_lr="gen-clip")]


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([trial("0", None, None, **BAD), trial("1", math.inf, math.nan, auto_lr="gen-clip", **BAD)], (1.0, 0.0)),
        ([trial("0", math.nan, 0.5), trial("1", 1.0, math.nan, lr=1e-3, auto_lr="gen-clip")], (math.nan, math.nan)),
        (
            [trial("0", 1e30, 1e30), trial("1", 0.0, 0.0, lr=1e-3), trial("2", math.inf, 1.0, auto_lr="gen-clip")],
            (1e30, math.inf),
        ),
        ([trial("0", None, None, **BAD), trial("1", None, None, lr=1e-3, **BAD), *AUTO], None),
    ],
    ids=["diverged", "nan", "huge", "rates diverged"],
)
def test_odd_tables_break_no_figure(make_sweep: MakeSweep, rows: Any, values: tuple[float, float] | None) -> None:
    out = make_sweep(rows, values and [report(str(i), step, *values) for i in range(3) for step in (1, 2)])
    (out / "auto_lr.csv").write_text("trial_id,step,eta,eta_star,fallback\n0,1,nan,inf,not finite\n1,1,1e-4,,\n1,2,")
    columns = "trial_id,step,eta,x,retain_loss,forget_loss,slope,curvature,loss_zero,eta_star"
    landscape = pd.read_csv(io.StringIO(f"{columns}\n0,1,1e-4,0.0,nan,1,,,,\n"))
    for _, data in gallery(by_task(replace(read_source(out), landscape=landscape))[0]):
        assert "<svg" in svg_text(draw_panels(data))
