"""Method names: the pairs of forget objective and weighting that exist, and the options of each pair."""

from __future__ import annotations

import pytest

from search_spaces.fields import defaults
from tests.facts import assert_names
from trainables.methods import MethodError, parse_method, retain_objective_problem
from trainables.objectives import OBJECTIVES
from trainables.weightings import WEIGHTINGS


@pytest.mark.parametrize(
    ("given", "name", "objective", "weighting"),
    [
        *((name, name, "ascent", name) for name in WEIGHTINGS),
        ("npo", "npo", "npo", "ga"),
        ("rmu", "rmu", "rmu", "gdiff"),  # RMU was published with a retain term
        ("idk-dpo", "dpo", "dpo", "ga"),
        ("idk-dpo+ngdiff", "dpo+ngdiff", "dpo", "ngdiff"),
    ],
)
def test_a_method_name_means_an_objective_and_a_weighting(
    given: str, name: str, objective: str, weighting: str
) -> None:
    method = parse_method(given)
    assert (method.name, method.objective.name, method.weighting.name) == (name, objective, weighting)
    parts = OBJECTIVES[objective], WEIGHTINGS[weighting]
    assert list(method.options) == [option.name for part in parts for option in part.options]


@pytest.mark.parametrize("name", ["rmu", "rmu+ngdiff", "npo", "ga"])
def test_kl_is_refused_for_methods_with_their_own_retain_objective_or_with_none(name: str) -> None:
    assert_names(retain_objective_problem(parse_method(name), "kl"), "retain_objective kl", f"'{name}'")
    assert retain_objective_problem(parse_method(name), "ce") is None


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("nonsense", ("method 'nonsense'", "gd, ga, gdiff")),
        ("nonsense+ngdiff", ("objective 'nonsense'", "'nonsense+ngdiff'", "ascent")),
        ("npo+nonsense", ("weighting 'nonsense'", "'npo+nonsense'", "gd, ga")),
        ("+ngdiff", ("objective ''", "'+ngdiff'")),
        ("ngdiff+npo", ("objective 'ngdiff'",)),
        ("npo+gd", ("'npo+gd'", "gd", "npo")),
    ],
)
def test_an_unknown_method_is_refused_with_its_wrong_part_and_the_known_names(
    name: str, facts: tuple[str, ...]
) -> None:
    with pytest.raises(MethodError) as refusal:
        parse_method(name)
    assert_names(refusal.value, *facts)


def test_no_pair_has_two_options_of_one_name() -> None:
    """Options are given by name alone, so names must be unique within a method."""
    for objective in OBJECTIVES.values():
        for weighting in WEIGHTINGS.values():
            names = [option.name for option in (*objective.options, *weighting.options)]
            assert len(set(names)) == len(names), (objective.name, weighting.name)


def test_options_without_a_value_have_their_defaults_and_those_of_other_methods_are_left_out() -> None:
    assert parse_method("npo+gdiff").resolve({"c": 0.25, "alpha": 7.0}) == {"beta": 0.1, "c": 0.25}
    assert parse_method("gdiff").resolve({}) == {"c": defaults(WEIGHTINGS["gdiff"].options)["c"]}
    assert parse_method("ngdiff").resolve({"c": 0.25}) == {}
