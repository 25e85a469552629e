"""A sweep never tries a configuration twice: a sampler's proposal that was tried does not become a trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.search.tried import TriedConfigurations
from tests.sweeper.conftest import Proposal, drive, open_study, plain_trials

pytestmark = pytest.mark.usefixtures("no_fsync")
LISTED = Space(
    (
        Choice("method", ("gdiff", "ngdiff")),
        Choice("c", (0.1, 0.5, 0.9), when={"method": ("gdiff",)}),
        Choice("lr", (1e-5, 1e-4, 1e-3)),
    )
)
"""A space with twelve configurations: nine of gdiff and three of ngdiff."""
INTEGERS = Space((Number("epochs", 1, 4, integer=True, grid=(2,)), Choice("lr", (1e-4, 1e-3))), {"method": "ngdiff"})
"""A space with eight configurations."""
MIXED = Space((Choice("method", ("gdiff", "ngdiff")), Number("c", 0.1, 0.9, when={"method": ("gdiff",)})), {"lr": 1e-4})
"""A space with one configuration of ngdiff, and a range for gdiff."""


def distinct(proposals: list[Proposal]) -> int:
    return len({json.dumps(config, sort_keys=True) for _, config in proposals})


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2", "qmc"])
@pytest.mark.parametrize(("space", "size"), [(LISTED, 12), (INTEGERS, 8)], ids=["listed values", "integers"])
def test_every_trial_has_another_configuration_until_the_space_is_exhausted(
    tmp_path: Path, space: Space, size: int, sampler: str
) -> None:
    study = open_study(tmp_path / "part", space=space, sampler=sampler, trials=size - 2)
    proposals = drive(study)
    assert (len(proposals), distinct(proposals), study.is_exhausted) == (size - 2, size - 2, False)
    study = open_study(tmp_path / "all", space=space, sampler=sampler, trials=size + 1)
    proposals = drive(study)
    assert (len(proposals), distinct(proposals), study.is_exhausted) == (size, size, True)
    assert study.tried.size == size
    complete = [trial for trial in plain_trials(tmp_path / "all") if trial.state.name == "COMPLETE"]
    assert [trial.user_attrs["config"] for trial in complete] == [config for _, config in proposals]


def test_a_sampler_that_proposes_only_tried_configurations_is_helped_by_random_draws(tmp_path: Path) -> None:
    proposals = drive(open_study(tmp_path, space=MIXED, sampler="tpe", trials=6))
    assert distinct(proposals) == 6
    assert any("fixed_params" in trial.system_attrs for trial in plain_trials(tmp_path))


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_resumed_study_has_the_same_trials_and_tries_the_other_configurations(tmp_path: Path, sampler: str) -> None:
    shape: dict[str, Any] = {"space": LISTED, "sampler": sampler, "seeds": (0, 1)}
    first = drive(open_study(tmp_path, trials=13, **shape), tmp_path)
    before = [(trial.number, trial.state, trial.params, trial.system_attrs) for trial in plain_trials(tmp_path)]
    resumed = open_study(tmp_path, trials=24, **shape)
    after = [(trial.number, trial.state, trial.params, trial.system_attrs) for trial in plain_trials(tmp_path)]
    assert after == before
    assert len(after) > 13, "some proposals had been tried"
    second = drive(resumed, tmp_path)
    assert [trial_id for trial_id, _ in first + second] == [f"{index:05d}" for index in range(24)]
    assert distinct(first + second) == 24
    pairs = list(zip((first + second)[::2], (first + second)[1::2], strict=True))
    assert all(one[1] | {"seed": 1} == other[1] for one, other in pairs)


def test_after_a_resume_the_quasi_random_sequence_is_that_of_an_undisturbed_sweep(tmp_path: Path) -> None:
    resumed: list[Proposal] = []
    for trials in (4, 8, 12):
        drive(open_study(tmp_path, space=LISTED, sampler="qmc", trials=trials), tmp_path, proposed=resumed)
    assert resumed == drive(open_study(tmp_path / "whole", space=LISTED, sampler="qmc", trials=12))


def test_planned_points_are_tried_once_and_their_missing_values_are_equal_for_all_seeds(tmp_path: Path) -> None:
    points = [{"lr": 1e-4, "method": "ngdiff"}, {"lr": 1e-4, "method": "ngdiff"}, {"method": "gdiff"}]
    shape: dict[str, Any] = {"space": LISTED, "seeds": (0, 1), "begin": {"points": points}}
    proposals = drive(open_study(tmp_path, trials=3, **shape), tmp_path)
    proposals += drive(open_study(tmp_path, trials=6, **shape), tmp_path)
    assert distinct(proposals) == 6
    configs = [config for _, config in proposals]
    assert configs[0] == {"lr": 1e-4, "method": "ngdiff", "seed": 0}
    assert configs[2]["method"] == "gdiff"
    assert all(one | {"seed": 1} == other for one, other in zip(configs[::2], configs[1::2], strict=True))
    assert "fixed_params" not in plain_trials(tmp_path)[-2].system_attrs, "no point is left"


def test_configurations_whose_trials_would_be_equal_count_once() -> None:
    """A space file may vary an option that some methods do not have."""
    space = Space((Choice("method", ("gdiff", "ngdiff")), Choice("c", (0.1, 0.9))))

    def identify(config: Any) -> object:
        return config["method"], config["c"] if config["method"] == "gdiff" else None

    tried = TriedConfigurations(space, identify=identify, first_seed=0, random_seed=0)
    assert tried.size == 3
    for _ in range(3):
        assert not tried.has_all
        config = tried.draw()
        assert config is not None
        assert config not in tried
        tried.add(config)
    assert tried.has_all
    assert tried.draw() is None
