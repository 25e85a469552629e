"""The built-in spaces: what is searched for which methods, what given values replace, and the paper's grids."""

from __future__ import annotations

import pytest

from search_spaces.builtin import Methods, default_space, paper_space
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


def parameters(space: Space) -> dict[str, object]:
    """The space's parameters by key."""
    return {parameter.key: parameter for parameter in space.parameters}


def test_every_option_is_searched_where_it_applies() -> None:
    space = default_space(methods=METHODS)
    assert space.constants == {"auto_lr": "off"}
    assert parameters(space) == {
        "method": Choice("method", ("gdiff", "npo", "npo+gdiff", "ngdiff")),
        "lr": Number("lr", 1e-5, 1e-3, log=True),
        "gdiff.c": Number("c", 0.1, 0.995, log_to_one=True, when={"method": ("gdiff", "npo+gdiff")}, key="gdiff.c"),
        "npo.beta": Number("beta", 0.01, 1.0, log=True, when={"method": ("npo", "npo+gdiff")}, key="npo.beta"),
    }


def test_options_of_one_method_need_no_conditions_and_without_a_range_keep_their_default() -> None:
    options = {"cagrad.alpha": option("alpha", 0.1, 0.9, LINEAR), "cagrad.target": option("target")}
    space = default_space(methods={"cagrad": options}, lr_range=(1e-6, 1e-4))
    assert space.constants == {"method": "cagrad", "auto_lr": "off"}
    assert parameters(space) == {
        "lr": Number("lr", 1e-6, 1e-4, log=True),
        "cagrad.alpha": Number("alpha", 0.1, 0.9, key="cagrad.alpha"),
    }


def test_given_values_replace_ranges_and_one_value_is_never_searched() -> None:
    space = default_space(
        methods=METHODS,
        lr=(1e-4,),
        auto_lr="both",
        options={"npo.beta": (0.1, 0.5), "gdiff.c": (0.1, 0.9, 0.1)},
    )
    assert space.constants == {"lr": 1e-4}
    found = parameters(space)
    assert found["auto_lr"] == Choice("auto_lr", ("off", "on"))
    assert found["gdiff.c"] == Choice("c", (0.1, 0.9), when={"method": ("gdiff", "npo+gdiff")}, key="gdiff.c")
    assert found["npo.beta"] == Choice("beta", (0.1, 0.5), when={"method": ("npo", "npo+gdiff")}, key="npo.beta")
    assert len(space.grid()) == 2 * (2 + 2 + 2 * 2 + 1)


def test_a_single_c_stays_with_its_methods() -> None:
    grid = default_space(methods=METHODS, lr=(1e-4,), options={"gdiff.c": (0.5,), "npo.beta": (0.1,)}).grid()
    common = {"auto_lr": "off", "lr": 1e-4}
    assert grid == [
        common | {"method": "gdiff", "c": 0.5},
        common | {"method": "npo", "beta": 0.1},
        common | {"method": "npo+gdiff", "c": 0.5, "beta": 0.1},
        common | {"method": "ngdiff"},
    ]


def test_all_problems_with_the_methods_are_reported_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        default_space(
            methods={"ngdiff": {}, "mgda": {}},
            auto_lr="maybe",
            options={"gdiff.c": (0.5,), "npo.beta": (0.1,)},
            lr_range=(1.0, 0.1),
        )
    facts = [("auto_lr", "'maybe'"), ("gdiff.c", "ngdiff, mgda"), ("npo.beta", "ngdiff, mgda"), ("lr", "1 and 0.1")]
    for problem, named in zip(caught.value.problems, facts, strict=True):
        assert_names(problem, *named)
    with pytest.raises(SpaceError):
        default_space(methods={})


def test_options_of_one_method_must_not_share_a_plain_name() -> None:
    with pytest.raises(SpaceError, match=r"wga\.beta and undial\.beta.*'beta'"):
        default_space(methods={"wga+undial": {"wga.beta": BETA, "undial.beta": BETA}})


def test_every_range_lies_within_what_the_option_allows_and_around_its_default() -> None:
    searched = {key: (item, item.range) for key, item in OPTIONS.items() if item.range is not None}
    assert {"gdiff.c", "npo.beta", "cagrad.alpha", "gradnorm.alpha", "gradvac.ema_beta"} <= set(searched)
    for key, (item, at) in searched.items():
        assert (item.problem(at.low), item.problem(at.high)) == (None, None), key
        assert at.low <= item.default <= at.high, key
        assert at.scale in (LINEAR, LOG, LOG_TO_ONE), key
        assert at.source, key


def test_the_papers_grid_is_three_learning_rates_times_three_values_of_c_where_c_applies() -> None:
    grid = paper_space(methods={name: METHODS[name] for name in ("gdiff", "ngdiff", "npo")}).grid()
    assert len(grid) == 9 + 3 + 3
    assert {(point["lr"], point.get("c")) for point in grid if point["method"] == "gdiff"} == {
        (lr, c) for lr in (1e-5, 5e-5, 1e-4) for c in (0.9, 0.5, 0.1)
    }
    assert [point["lr"] for point in grid if point["method"] == "npo"] == [1e-5, 5e-5, 1e-4]
    assert all((point["epochs"], point["optimizer"], point["auto_lr"]) == (15, "adamw", "off") for point in grid)
    assert not any("beta" in point for point in grid)


def test_given_values_replace_the_papers() -> None:
    space = paper_space(
        methods=METHODS,
        lr=(2e-5,),
        auto_lr="on",
        lr_range=(1e-6, 1e-4),
        options={"gdiff.c": (0.7,), "npo.beta": (0.05, 0.2)},
    )
    grid = space.grid()
    assert [(point["method"], point.get("c"), point.get("beta")) for point in grid] == [
        ("gdiff", 0.7, None),
        ("npo", None, 0.05),
        ("npo", None, 0.2),
        ("npo+gdiff", 0.7, 0.05),
        ("npo+gdiff", 0.7, 0.2),
        ("ngdiff", None, None),
    ]
    assert {(point["lr"], point["auto_lr"], point["epochs"]) for point in grid} == {(2e-5, "on", 15)}
