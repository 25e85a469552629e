"""The built-in spaces: what is searched for which methods, and the grids."""

from __future__ import annotations

import pytest

from search_spaces.builtin import Methods, default_space, lr_study_space, paper_space
from search_spaces.common.fields import LINEAR, LOG, LOG_TO_ONE, Field, Range
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space, SpaceError
from tests.facts import assert_names
from trainables.methods import OPTIONS

C = Field("c", 0.5, "a share", low=0.0, range=Range(0.1, 0.995, LOG_TO_ONE, "a paper"))
BETA = Field("beta", 0.5, "a temperature", low=0.0, range=Range(0.01, 1.0, LOG, "a paper"))
METHODS: Methods = {
    "gdiff": {"gdiff.c": C},
    "npo": {"npo.beta": BETA},
    "npo+gdiff": {"npo.beta": BETA, "gdiff.c": C},
    "ngdiff": {},
}
WITH_C, WITH_BETA = {"method": ("gdiff", "npo+gdiff")}, {"method": ("npo", "npo+gdiff")}
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


def test_an_empty_range_and_options_with_the_same_name_are_refused_together() -> None:
    both = {"wga+undial": {"wga.beta": BETA, "undial.beta": BETA}}
    with pytest.raises(SpaceError) as caught:
        default_space(methods=both, lr_range=(1.0, 0.1))
    empty, same = caught.value.problems
    assert_names(empty, "lr", "1 and 0.1")
    assert_names(same, "wga.beta and undial.beta", "'beta'")
    with pytest.raises(SpaceError, match="lr"):
        lr_study_space(methods=METHODS, lr=(), rules=("gen",))
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
