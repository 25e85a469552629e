"""Method names: the pairs of forget objective and weighting that exist, and the options of each pair."""

from __future__ import annotations

import pytest

from tests.facts import assert_names
from trainables.methods import MethodError, parse_method
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
