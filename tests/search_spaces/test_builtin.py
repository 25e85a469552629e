"""The built-in spaces: what is searched for which methods, what given values replace, and the grids."""

from __future__ import annotations

import pytest

from search_spaces.builtin import Methods, default_space, lr_study_space, paper_space
from search_spaces.fields import LINEAR, LOG, LOG_TO_ONE, Field, Range
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space, SpaceError
from tests.facts import assert_names
from trainables.methods import OPTIONS


def option(name: str, *searched: float | str) -> Field:
    return Field(name, 0.5, "an option", low=0.0, range=Range(*searched, "a paper") if searched else None)  # type: ignore[arg-type]


C, BETA = option("c", 0.1, 0.995, LOG_TO_ONE), option("beta", 0.01, 1.0, LOG)
METHODS: Methods = {
    "gdiff": {"gdiff.c": C},
    "npo": {"npo.beta": BETA},
    "npo+gdiff": {"npo.beta": BETA, "gdiff.c": C},
    "ngdiff": {},
}
WITH_C, WITH_BETA = {"method": ("gdiff", "npo+gdiff")}, {"method": ("npo", "npo+gdiff")}
CAGRAD = {"cagrad": {"cagrad.alpha": option("alpha", 0.1, 0.9, LINEAR), "cagrad.target": option("target")}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # An option is searched for every method that has it.
        (
            {"methods": METHODS},
            Space(
                (
                    Choice("method", ("gdiff", "npo", "npo+gdiff", "ngdiff")),
                    Number("lr", 1e-5, 1e-3, log=True),
                    Number("c", 0.1, 0.995, log_to_one=True, when=WITH_C, key="gdiff.c"),
                    Number("beta", 0.01, 1.0, log=True, when=WITH_BETA, key="npo.beta"),
                ),
                {"auto_lr": "off"},
            ),
        ),
        # Options of a single method have no conditions. An option without a range keeps its default.
        (
            {"methods": CAGRAD, "lr_range": (1e-6, 1e-4)},
            Space(
                (Number("lr", 1e-6, 1e-4, log=True), Number("alpha", 0.1, 0.9, key="cagrad.alpha")),
                {"method": "cagrad", "auto_lr": "off"},
            ),
        ),
        # Given values replace ranges.
        (
            {
                "methods": METHODS,
                "lr": (1e-4,),
                "auto_lr": "both",
                "options": {"npo.beta": (0.1, 0.5), "gdiff.c": (0.1, 0.9, 0.1)},
            },
            Space(
                (
                    Choice("method", ("gdiff", "npo", "npo+gdiff", "ngdiff")),
                    Choice("auto_lr", ("off", "on")),
                    Choice("c", (0.1, 0.9), when=WITH_C, key="gdiff.c"),
                    Choice("beta", (0.1, 0.5), when=WITH_BETA, key="npo.beta"),
                ),
                {"lr": 1e-4},
            ),
        ),
    ],
    ids=["several methods", "one method", "values"],
)
def test_the_default_space(given: dict[str, object], expected: Space) -> None:
    found = default_space(**given)  # type: ignore[arg-type]
    assert found.constants == expected.constants
    assert {item.key: item for item in found.parameters} == {item.key: item for item in expected.parameters}


def test_a_single_value_stays_with_its_methods() -> None:
    grid = default_space(methods=METHODS, lr=(1e-4,), options={"gdiff.c": (0.5,), "npo.beta": (0.1,)}).grid()
    common = {"auto_lr": "off", "lr": 1e-4}
    assert grid == [
        common | {"method": "gdiff", "c": 0.5},
        common | {"method": "npo", "beta": 0.1},
        common | {"method": "npo+gdiff", "c": 0.5, "beta": 0.1},
        common | {"method": "ngdiff"},
    ]


def test_an_empty_range_and_options_with_the_same_name_are_refused_together() -> None:
    both = {"wga+undial": {"wga.beta": BETA, "undial.beta": BETA}}
    with pytest.raises(SpaceError) as caught:
        default_space(methods=both, lr_range=(1.0, 0.1))
    empty, same = caught.value.problems
    assert_names(empty, "lr", "1 and 0.1")
    assert_names(same, "wga.beta and undial.beta", "'beta'")
    with pytest.raises(SpaceError, match="lr"):
        study(lr=())
    with pytest.raises(SpaceError, match="method"):
        default_space(methods={})


def test_every_range_lies_within_what_the_option_allows_and_around_its_default() -> None:
    searched = {key: (item, item.range) for key, item in OPTIONS.items() if item.range is not None}
    assert {"gdiff.c", "npo.beta", "cagrad.alpha", "gradnorm.alpha", "gradvac.ema_beta"} <= set(searched)
    for key, (item, at) in searched.items():
        assert (item.problem(at.low), item.problem(at.high)) == (None, None), key
        assert at.low <= item.default <= at.high, key
        assert at.scale in (LINEAR, LOG, LOG_TO_ONE), key
        assert at.source, key


@pytest.mark.parametrize(
    ("given", "points"),
    [
        (
            {},
            [
                *(("gdiff", lr, c, None) for lr in (1e-5, 5e-5, 1e-4) for c in (0.9, 0.5, 0.1)),
                *((method, lr, None, None) for method in ("npo", "ngdiff") for lr in (1e-5, 5e-5, 1e-4)),
            ],
        ),
        (
            {"lr": (2e-5,), "auto_lr": "on", "lr_range": (1e-6, 1e-4)}
            | {"options": {"gdiff.c": (0.7,), "npo.beta": (0.05, 0.2)}},
            [
                *(("gdiff", 2e-5, 0.7, None), ("npo", 2e-5, None, 0.05), ("npo", 2e-5, None, 0.2)),
                ("ngdiff", 2e-5, None, None),
            ],
        ),
    ],
    ids=["as published", "with other values"],
)
def test_the_papers_grid(given: dict[str, object], points: list[tuple[object, ...]]) -> None:
    methods = {name: METHODS[name] for name in ("gdiff", "npo", "ngdiff")}
    grid = paper_space(methods=methods, **given).grid()  # type: ignore[arg-type]
    assert [(point["method"], point["lr"], point.get("c"), point.get("beta")) for point in grid] == points
    constants = {(point["epochs"], point["optimizer"], point["auto_lr"]) for point in grid}
    assert constants == {(15, "adamw", given.get("auto_lr", "off"))}


AUTOMATIC = {"auto_lr": ("on",)}
ARMS = {
    "smoothings": Field("auto_lr_smoothing", "search", "rule", kind=str, when=AUTOMATIC),
    "probes": Field("auto_lr_probe", "fresh", "batch", kind=str, when=AUTOMATIC),
    "probe_batches": Field("auto_lr_probe_batches", 4, "count", when={**AUTOMATIC, "auto_lr_probe": ("fresh",)}),
}


def study(**changes: object) -> Space:
    """Return a study's space. Keys of ``ARMS`` change the values of AutoLR's settings."""
    values: dict[str, object] = {"smoothings": ("clip",), "probes": ("fresh",), "probe_batches": (4,)}
    arms = [(ARMS[name], changes.pop(name, default)) for name, default in values.items()]
    methods = {"gdiff": {"gdiff.c": Field("c", 0.5, "share")}, "ngdiff": {}}
    given: dict[str, object] = {"methods": methods, "lr": (1e-4, 1e-3), "options": {"gdiff.c": (0.5, 0.9)}}
    return lr_study_space(arms=arms, **(given | changes))  # type: ignore[arg-type]


def test_a_study_visits_every_method_at_every_rate_fixed_and_as_autolrs_start() -> None:
    grid = study().grid()
    cells = [(method, c) for method, c in (("gdiff", 0.5), ("gdiff", 0.9), ("ngdiff", None))]
    rates = [(policy, lr) for policy in ("off", "on") for lr in (1e-4, 1e-3)]
    found = [(point["method"], point.get("c"), point["auto_lr"], point["lr"]) for point in grid]
    assert sorted(found, key=str) == sorted([(*cell, *rate) for cell in cells for rate in rates], key=str)
    assert all(("auto_lr_smoothing" in point) == (point["auto_lr"] == "on") for point in grid)
    assert study(lr=(1e-4, 1e-4), smoothings=("clip", "clip")).grid() == study(lr=(1e-4,)).grid()


def test_every_combination_of_smoothing_and_probe_is_an_arm() -> None:
    grid = study(smoothings=("clip", "paper"), probes=("same", "fresh"), start_lr=(1e-5,), probe_batches=(1, 4)).grid()
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
    # A setting without an effect in any arm is left out.
    assert not any("auto_lr_probe_batches" in point for point in study(probes=("same",), probe_batches=(1, 4)).grid())
