"""A replayed claim is compared with runs that are neither in the search nor fresh runs of the claim."""

from __future__ import annotations

import pytest
from confirm_replay import Claim, Model, Scores, Seeds, _claim, ranked_models

from search_spaces.constraint import Constraint

GOOD, NARROW, BAD = ({"verbmem": value, "utility": 0.8, "retain_loss": 0.1} for value in (0.02, 0.098, 0.5))
LIMITS = (Constraint("verbmem", "<", 0.1), Constraint("utility", ">=", 0.6))


def seeds(**runs: list[Scores]) -> Seeds:
    """Return a problem with one epoch per run. Each configuration has its scores with the seeds 1, 2, ..."""
    epochs = {(name, seed): [scores] for name, found in runs.items() for seed, scores in enumerate(found, 1)}
    return Seeds({}, epochs, LIMITS)


ORDER = [1, 2, 3, 4, 5]
MODELS = [Model("first", 1, GOOD), Model("second", 1, GOOD)]


@pytest.mark.parametrize(
    ("arm", "first", "expected"),
    [
        ("none", [BAD, BAD, BAD, GOOD, BAD], Claim(0.5, 0)),  # seeds 4 and 5 are the further runs
        ("3 of 3", [GOOD, GOOD, GOOD, GOOD, BAD], Claim(0.5, 3)),
        ("3 of 3", [GOOD, BAD, GOOD, BAD, BAD], Claim(1.0, 6)),  # the runner-up
        ("expected", [GOOD, GOOD, GOOD, GOOD, GOOD], Claim(1.0, 3)),
        ("expected", [GOOD, NARROW, GOOD, GOOD, GOOD], Claim(None, 3)),  # three of three, but narrowly
        ("expected 25%", [GOOD, BAD, GOOD, GOOD, GOOD], Claim(None, 3)),  # no epochs are left for the runner-up
    ],
)
def test_the_claim_of_an_arm(arm: str, first: list[Scores], expected: Claim) -> None:
    problem = seeds(first=first, second=[GOOD] * 5)
    assert _claim(problem, MODELS, ORDER, arm, search_epochs=20) == expected


def test_a_configuration_without_further_runs_is_left_out() -> None:
    problem = seeds(first=[BAD] * 3, second=[GOOD] * 4)
    assert _claim(problem, MODELS, ORDER, "none", search_epochs=20) == Claim(1.0, 0)


def test_models_are_ranked_by_the_best_epoch_of_each_configuration() -> None:
    scores = [("a", 1, 0.90, 0.09), ("a", 2, 0.89, 0.01), ("b", 1, 0.85, 0.0), ("c", 1, 0.8, 0.0), ("d", 1, 0.7, 0.0)]
    good = [Model(name, epoch, {**GOOD, "utility": kept, "verbmem": told}) for name, epoch, kept, told in scores]
    found = ranked_models(good, LIMITS, ())
    assert [model[:2] for model in found] == [("a", 2), ("b", 1), ("c", 1)]
