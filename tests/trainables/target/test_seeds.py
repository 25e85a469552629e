"""A target of another seed is another model, and data of another seed are other data, each with its own name."""

from __future__ import annotations

import pytest

from trainables.data import DataError, load_data
from trainables.data.authors import authors
from trainables.spec import TrialSpec
from trainables.target.target_spec import target_spec_of
from trainables.target.training import load_base


def test_the_seed_of_the_target_makes_other_weights_and_another_name() -> None:
    first, same, other = (target_spec_of(TrialSpec(target_seed=seed)) for seed in (0, 0, 3))
    assert first.trained_key == same.trained_key != other.trained_key
    assert first.retain_key != other.retain_key
    weights = [next(load_base(problem)[0].parameters()).detach() for problem in (first, same, other)]
    assert bool((weights[0] == weights[1]).all())
    assert not bool((weights[0] == weights[2]).all())


def test_the_seed_of_the_data_makes_other_authors() -> None:
    data = target_spec_of(TrialSpec(data_seed=3)).data
    assert data.forget == authors(seed=3).forget
    assert not {item.answer for item in data.forget} & {item.answer for item in authors().forget}
    assert target_spec_of(TrialSpec(data_seed=3)).trained_key != target_spec_of(TrialSpec()).trained_key


def test_data_from_files_have_no_seed() -> None:
    with pytest.raises(DataError, match=r"data_seed .*digits"):
        load_data("digits", seed=1)
