"""Spaces: grids by brute force, round trips of configurations, and inconsistent parameters."""

from __future__ import annotations

import itertools
import json

import optuna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from search_spaces.common.values import Value
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from tests.facts import assert_names
from tests.search_spaces.conftest import CONDITIONAL


def test_single_values_are_never_searched_and_become_constants_unless_they_have_a_condition() -> None:
    c, method = Choice("c", (0.5,), when={"method": ("gdiff",)}), Choice("method", ("gdiff", "ngdiff"))
    space = Space.from_parameters([Choice("lr", (0.1,)), method, c])
    assert space == Space((method, c), {"lr": 0.1})
    assert list(space.distributions()) == ["method"]
    assert Space((), {"lr": 0.1}).grid() == [{"lr": 0.1}]


METHOD = Choice("method", ("gdiff", "npo"))


@pytest.mark.parametrize(
    ("space", "facts"),
    [
        (Space((METHOD, Choice("c", (1, 2), when={"methd": ("gdiff",)}))), ("c:", "methd", "not in the space")),
        (Space((Choice("c", (1, 2), when={"method": ("gdiff",)}), METHOD)), ("c:", "method", "before")),
        (Space((Number("lr", 0.1, 1.0), Choice("c", (1, 2), when={"lr": (0.5,)}))), ("c:", "lr", "continuous")),
        (
            Space((METHOD, Choice("c", (1, 2), when={"method": ("ngdiff", "mgda")}))),
            ("c:", "never applies", "method", "'ngdiff' or 'mgda'"),
        ),
        (
            Space((Choice("c", (1, 2), when={"method": ("npo",)}),), {"method": "gdiff"}),
            ("c:", "never applies", "'npo'", "method is 'gdiff'"),
        ),
        (
            Space((METHOD, Number("beta", 0.1, 1.0, key="npo.beta"), Number("beta", 2.0, 3.0, key="simnpo.beta"))),
            ("simnpo.beta:", "npo.beta and simnpo.beta", "'beta'", "when"),
        ),
        (Space((Number("beta", 0.1, 1.0, key="npo.beta"),), {"beta": 0.1}), ("npo.beta:", "beta and npo.beta", "when")),
    ],
)
def test_members_that_are_inconsistent_are_named(space: Space, facts: tuple[str, ...]) -> None:
    [problem] = space.problems()
    assert problem.startswith(facts[0])
    assert_names(problem, *facts)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"parameters": [{"name": "lr", "type": "float", "low": 0.1, "high": 1.0, "step": 0.1}], "constants": {}},
        {"parameters": [{"name": "lr", "type": "choice", "values": [3], "when": ["method"]}], "constants": {}},
    ],
)
def test_a_damaged_stored_space_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="stored search space"):
        Space.from_dict(stored)


@st.composite
def spaces(draw: st.DrawFn, *, finite: bool = False) -> Space:
    """Draw a valid space of up to five parameters: all names differ, and all conditions can hold."""
    parameters: list[Parameter] = []
    for name in "abcde"[: draw(st.integers(1, 5))]:
        when: dict[str, tuple[Value, ...]] = {}
        for earlier in parameters:
            if isinstance(earlier, Choice) and draw(st.booleans()):
                when[earlier.key] = tuple(draw(st.lists(st.sampled_from(earlier.values), min_size=1, unique=True)))
        key = draw(st.sampled_from([name, f"owner.{name}"]))
        kind = draw(st.sampled_from(["choice", "int"] if finite else ["choice", "float", "int"]))
        if kind == "choice":
            value = st.sampled_from(["x", "y", "z", 0.25, 2, None, False])
            values = draw(st.lists(value, min_size=1, max_size=4, unique=True))
            parameters.append(Choice(name, tuple(values), when=when, key=key))
        elif kind == "int":
            low = draw(st.integers(1, 4))
            high = low + draw(st.integers(1, 3))
            parameters.append(Number(name, low, high, log=draw(st.booleans()), when=when, key=key, integer=True))
        else:
            low_float = draw(st.floats(1e-6, 1.0))
            high_float = low_float * draw(st.floats(1.5, 1e4))
            parameters.append(Number(name, low_float, high_float, log=draw(st.booleans()), when=when, key=key))
    return Space(tuple(parameters), draw(st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from([1, "t", True]))))


@settings(max_examples=40)
@given(space=spaces(), data=st.data())
@example(space=CONDITIONAL, data=None)
def test_a_suggestion_comes_back_from_optuna_and_from_json_and_with_one_change_it_is_refused_or_comes_back(
    space: Space, data: st.DataObject | None
) -> None:
    assert space.problems() == []
    assert Space.from_dict(json.loads(json.dumps(space.to_dict()))) == space
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask()
    config: dict[str, object] = dict(space.suggest(trial))
    assert space.params_of(config) == trial.params
    assert trial.distributions.items() <= space.distributions().items()
    assert space.suggest(optuna.trial.FixedTrial(space.params_of(config))) == config
    if data is None:
        return
    name = data.draw(st.sampled_from([*(parameter.name for parameter in space.parameters), *space.constants]))
    removed = object()
    value = data.draw(st.sampled_from([removed, "x", 0.25, 2, 3, None, False, 1e9, "outside"]))
    config[name] = value
    if value is removed:
        del config[name]
    refused = False
    try:
        params = space.params_of(config)
    except ValueError:
        refused = True
    assert refused or space.suggest(optuna.trial.FixedTrial(params)) == config


@settings(max_examples=40)
@given(space=spaces(finite=True))
def test_the_grid_is_what_brute_force_over_all_products_finds(space: Space) -> None:
    found = set()
    for values in itertools.product(*[parameter.points() or () for parameter in space.parameters]):
        picked = dict(zip((parameter.key for parameter in space.parameters), values, strict=True))
        dropped = True
        while dropped:  # an inactive parameter takes with it what waits for it
            waiting = [item for item in space.parameters if item.key in picked]
            idle = [item.key for item in waiting if any(picked.get(k, object) not in v for k, v in item.when.items())]
            dropped = bool(idle)
            picked = {key: value for key, value in picked.items() if key not in idle}
        found.add(frozenset((parameter.name, picked[parameter.key]) for parameter in waiting))
    grid = space.grid()
    assert {frozenset(point.items()) - frozenset(space.constants.items()) for point in grid} == found
    assert len(grid) == len(found)
    assert all(space.suggest(optuna.trial.FixedTrial(space.params_of(point))) == point for point in grid)


def test_the_configurations_are_listed_if_they_are_few() -> None:
    epochs = Number("epochs", 1, 3, integer=True, grid=(2,))
    methods, c = Choice("method", ("gdiff", "ngdiff")), Choice("c", (0.1, 0.9), when={"method": ("gdiff",)})
    configs = Space((epochs, methods, c), {"lr": 1e-4}).configurations()
    assert configs is not None
    assert len(configs) == 3 * (2 + 1)
    assert {"lr": 1e-4, "epochs": 3, "method": "ngdiff"} in configs
    assert Space((epochs, Number("lr", 1e-5, 1e-3, grid=(1e-4,)))).configurations() is None
    assert Space((epochs, Choice("seed", tuple(range(400))))).configurations() is None
    assert Space((), {"lr": 1e-4}).configurations() == [{"lr": 1e-4}]
