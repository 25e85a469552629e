"""The grid of a learning-rate study: every method at every rate, AutoLR's arms beside them, nothing twice."""

from __future__ import annotations

import pytest

from search_spaces.builtin import lr_study_space
from search_spaces.fields import Field
from search_spaces.space import Space, SpaceError

METHODS = {"gdiff": {"gdiff.c": Field("c", 0.5, "share")}, "ngdiff": {}}
AUTOMATIC = {"auto_lr": ("on",)}
ARMS = {
    "smoothings": Field("auto_lr_smoothing", "search", "rule", kind=str, when=AUTOMATIC),
    "probes": Field("auto_lr_probe", "fresh", "batch", kind=str, when=AUTOMATIC),
    "probe_batches": Field("auto_lr_probe_batches", 4, "count", when={**AUTOMATIC, "auto_lr_probe": ("fresh",)}),
}


def make(**changes: object) -> Space:
    """The study's space; arms by the names above."""
    values: dict[str, object] = {"smoothings": ("clip",), "probes": ("fresh",), "probe_batches": (4,)}
    arms = [(ARMS[name], changes.pop(name, default)) for name, default in values.items()]
    given: dict[str, object] = {"methods": METHODS, "lr": (1e-4, 1e-3), "options": {"gdiff.c": (0.5, 0.9)}}
    return lr_study_space(arms=arms, **(given | changes))  # type: ignore[arg-type]


def test_every_method_meets_every_rate_fixed_and_as_autolrs_start() -> None:
    grid = make().grid()
    assert len(grid) == (2 + 1) * (2 + 2)
    assert all("auto_lr_smoothing" not in point for point in grid if point["auto_lr"] == "off")
    assert {point["lr"] for point in grid if point["auto_lr"] == "on"} == {1e-4, 1e-3}
    assert all(("c" in point) == (point["method"] == "gdiff") for point in grid)


def test_every_combination_of_smoothing_and_probe_is_an_arm() -> None:
    grid = make(smoothings=("clip", "paper"), probes=("same", "fresh"), start_lr=(1e-5,), probe_batches=(1, 4)).grid()
    arms = {
        (point["auto_lr_smoothing"], point["auto_lr_probe"], point.get("auto_lr_probe_batches"), point["lr"])
        for point in grid
        if point["auto_lr"] == "on"
    }
    assert arms == {
        (smoothing, probe, batches, 1e-5)
        for smoothing in ("clip", "paper")
        for probe, batches in (("same", None), ("fresh", 1), ("fresh", 4))
    }
    assert {point["lr"] for point in grid if point["auto_lr"] == "off"} == {1e-4, 1e-3}


def test_a_setting_without_effect_in_any_arm_is_left_out() -> None:
    grid = make(probes=("same",), probe_batches=(1, 4)).grid()
    assert not any("auto_lr_probe_batches" in point for point in grid)


def test_a_repeated_value_counts_once_and_an_option_of_no_method_is_refused() -> None:
    assert make(lr=(1e-4, 1e-4), smoothings=("clip", "clip")).grid() == make(lr=(1e-4,)).grid()
    with pytest.raises(SpaceError, match=r"npo\.beta"):
        make(options={"npo.beta": (0.1,)})
    with pytest.raises(SpaceError, match="lr"):
        make(lr=())
