"""On conditional spaces, the Gaussian process and the quasi-random sampler choose every parameter that applies."""

from __future__ import annotations

import json

import numpy as np
import optuna
import pytest

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.search.samplers import SAMPLERS, Search

SPACE = Space(
    (
        Choice("method", ("gdiff", "ngdiff")),
        Number("lr", 1e-5, 1e-3, log=True),
        Number("c", 0.1, 0.9, when={"method": ("gdiff",)}),
        Number("every", 1, 20, integer=True, when={"method": ("ngdiff",)}),
    )
)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def study_with(name: str, *, seed: int = 0, asked: int = 0) -> optuna.Study:
    sampler = SAMPLERS[name](Search(space=SPACE, trials=64, seed=seed, proposed_trials=asked))
    return optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)


def test_quasi_random_points_fill_every_parameter_evenly_and_an_enqueued_point_uses_none() -> None:
    """Each eighth of an axis contains exactly an eighth of 32 Sobol' points, scrambled or not."""
    study = study_with("qmc")
    study.enqueue_trial({"method": "gdiff", "lr": 1e-4, "c": 0.5})
    _, *configs = [SPACE.suggest(study.ask()) for _ in range(33)]
    assert sum(config["method"] == "gdiff" for config in configs) == 16
    exponents = np.log10([float(str(config["lr"])) for config in configs])
    counts, _ = np.histogram(exponents, bins=np.linspace(-5, -3, 9))
    assert counts.tolist() == [4] * 8
    assert all(("c" in config) == (config["method"] == "gdiff") for config in configs)


def test_tpe_starts_with_the_middle_then_quasi_random_points_and_then_learns() -> None:
    study = study_with("tpe")
    configs = []
    for _ in range(40):
        trial = study.ask()
        configs.append(SPACE.suggest(trial))
        rate = np.log10(float(str(configs[-1]["lr"])))
        study.tell(trial, [-abs(rate + 3.2), abs(rate + 3.2)])
    first, *start = configs[:10]
    assert first == {"method": "ngdiff", "lr": pytest.approx(1e-4), "every": 10}
    points = study_with("qmc")
    assert start == [SPACE.suggest(points.ask()) for _ in range(10)][1:]
    rates = np.log10([float(str(config["lr"])) for config in configs])
    assert np.median(abs(rates[20:] + 3.2)) < np.median(abs(rates[:10] + 3.2)) / 2


def test_trials_of_previous_sweeps_count_as_startup_trials() -> None:
    study = study_with("tpe")
    for share in range(1, 11):
        params = {"method": "gdiff", "lr": 10.0 ** -(3 + share / 6), "c": 0.5}
        used = {name: SPACE.distributions()[name] for name in params}
        study.add_trial(optuna.trial.create_trial(values=[1.0 * share, 1.0 * share], params=params, distributions=used))
    proposed = [SPACE.suggest(study.ask()) for _ in range(4)]
    assert all(config.get("every") != 10 for config in proposed), "not the middle, which says nothing new by now"
    points = study_with("qmc")
    taken = [SPACE.suggest(points.ask()) for _ in range(14)]
    assert not [config for config in proposed if config in taken]


@pytest.mark.slow
def test_the_gaussian_process_finds_the_best_of_a_conditional_parameter_and_spreads_concurrent_trials() -> None:
    """Only c, which only gdiff has, decides the result. Random values would miss 0.8 most of the time."""
    study = study_with("gp")
    for _ in range(16):
        trial = study.ask()
        config = SPACE.suggest(trial)
        miss = abs(float(str(config["c"])) - 0.8) if config["method"] == "gdiff" else 1.0
        study.tell(trial, [-miss, miss])
    last = [trial for trial in study.trials[-4:] if trial.params["method"] == "gdiff"]
    assert len(last) >= 3
    assert np.median([abs(trial.params["c"] - 0.8) for trial in last]) < 0.05
    # Three proposals without a result in between differ.
    assert len({json.dumps(SPACE.suggest(study.ask())) for _ in range(3)}) == 3
