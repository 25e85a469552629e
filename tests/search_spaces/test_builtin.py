"""The built-in spaces: what is searched for which methods, what given values replace, and the grids."""

from __future__ import annotations

import pytest

from search_spaces.builtin import Methods, default_space, lr_study_space, paper_space
from search_spaces.fields import LINEAR, LOG, LOG_TO_ONE, Field, Range
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space, SpaceError
from search_spaces.values import Value
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
CAGRAD = {"cagrad.alpha": option("alpha", 0.1, 0.9, LINEAR), "cagrad.target": option("target")}


METHOD = Choice("method", tuple(METHODS))


def test_an_option_is_searched_for_every_method_that_has_it() -> None:
    space = default_space(methods=METHODS)
    assert space.constants == {"auto_lr": "off"}
    assert set(space.parameters) == {
        METHOD,
        Number("lr", 1e-5, 1e-3, log=True),
        Number("c", 0.1, 0.995, log_to_one=True, when=WITH_C, key="gdiff.c"),
        Number("beta", 0.01, 1.0, log=True, when=WITH_BETA, key="npo.beta"),
    }


def test_options_of_a_single_method_have_no_condition_and_an_option_without_a_range_keeps_its_default() -> None:
    space = default_space(methods={"cagrad": CAGRAD}, lr_range=(1e-6, 1e-4))
    assert space.constants == {"method": "cagrad", "auto_lr": "off"}
    assert set(space.parameters) == {
        Number("lr", 1e-6, 1e-4, log=True),
        Number("alpha", 0.1, 0.9, key="cagrad.alpha"),
    }


def test_given_values_replace_ranges() -> None:
    options = {"npo.beta": (0.1, 0.5), "gdiff.c": (0.1, 0.9, 0.1)}
    space = default_space(methods=METHODS, lr=(1e-4,), auto_lr="both", options=options)
    assert space.constants == {"lr": 1e-4}
    c = Choice("c", (0.1, 0.9), when=WITH_C, key="gdiff.c")
    beta = Choice("beta", (0.1, 0.5), when=WITH_BETA, key="npo.beta")
    assert set(space.parameters) == {METHOD, Choice("auto_lr", ("off", "on")), c, beta}


def test_an_empty_range_and_options_with_the_same_name_are_refused_together() -> None:
    both = {"wga+undial": {"wga.beta": BETA, "undial.beta": BETA}}
    with pytest.raises(SpaceError) as caught:
        default_space(methods=both, lr_range=(1.0, 0.1))
    empty, same = caught.value.problems
    assert_names(empty, "lr", "1 and 0.1")
    assert_names(same, "wga.beta and undial.beta", "'beta'")
    with pytest.raises(SpaceError, match="lr"):
        lr_study_space(methods=METHODS, lr=(), arms=[])
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


def test_the_papers_grid_keeps_the_papers_values_unless_others_are_given() -> None:
    methods = {name: METHODS[name] for name in ("gdiff", "npo", "ngdiff")}
    rates = (1e-5, 5e-5, 1e-4)
    expected = [
        *(("gdiff", lr, c, None) for lr in rates for c in (0.9, 0.5, 0.1)),
        *((method, lr, None, None) for method in ("npo", "ngdiff") for lr in rates),
    ]
    assert points_of(paper_space(methods=methods)) == expected
    others = paper_space(methods=methods, lr=(2e-5,), options={"gdiff.c": (0.7,), "npo.beta": (0.05, 0.2)})
    given = [("gdiff", 0.7, None), ("npo", None, 0.05), ("npo", None, 0.2), ("ngdiff", None, None)]
    assert points_of(others) == [(method, 2e-5, c, beta) for method, c, beta in given]
    assert (others.constants["epochs"], others.constants["optimizer"]) == (15, "adamw")


def points_of(space: Space) -> list[tuple[object, ...]]:
    return [(point["method"], point["lr"], point.get("c"), point.get("beta")) for point in space.grid()]


AUTOMATIC = {"auto_lr": ("on",)}
ARMS = {
    "smoothings": Field("auto_lr_smoothing", "search", "rule", kind=str, when=AUTOMATIC),
    "probes": Field("auto_lr_probe", "fresh", "batch", kind=str, when=AUTOMATIC),
    "probe_batches": Field("auto_lr_probe_batches", 4, "count", when={**AUTOMATIC, "auto_lr_probe": ("fresh",)}),
}


def study(**arms: tuple[str | int, ...]) -> list[dict[str, Value]]:
    """Return the grid of a study with these values of AutoLR's settings."""
    given = {"smoothings": ("clip",), "probes": ("fresh",), "probe_batches": (4,), **arms}
    space = lr_study_space(
        methods={"gdiff": {"gdiff.c": Field("c", 0.5, "share")}, "ngdiff": {}},
        lr=(1e-4, 1e-3),
        arms=[(ARMS[name], values) for name, values in given.items()],
        options={"gdiff.c": (0.5, 0.9)},
    )
    return space.grid()


def test_a_study_visits_every_method_at_every_rate_fixed_and_as_the_start_of_every_variant_of_autolr() -> None:
    cells = [(method, c) for method, c in (("gdiff", 0.5), ("gdiff", 0.9), ("ngdiff", None))]
    variants = [("off", None, None)]
    variants += [("clip", "same", None), ("clip", "fresh", 1), ("clip", "fresh", 4)]
    found = [
        (
            *(point["method"], point.get("c"), point.get("auto_lr_smoothing", "off")),
            *(point.get("auto_lr_probe"), point.get("auto_lr_probe_batches"), point["lr"]),
        )
        for point in study(probes=("same", "fresh"), probe_batches=(1, 4))
    ]
    expected = [(*cell, *variant, lr) for cell in cells for variant in variants for lr in (1e-4, 1e-3)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    # A setting without an effect in any variant is left out, and equal values count once.
    without_effect = study(probes=("same",), probe_batches=(1, 4), smoothings=("clip", "clip"))
    assert not any("auto_lr_probe_batches" in point for point in without_effect)
    assert len(without_effect) == len(study())
