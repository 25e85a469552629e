"""Samplers that propose a value for every parameter, for algorithms that do not support conditional parameters.

Optuna ignores the values of parameters that do not apply to a trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

Distributions = dict[str, BaseDistribution]
Propose = Callable[[Study, FrozenTrial], dict[str, Any]]
"""A function that returns a value for every parameter of the space."""


class WholeSpaceSampler(BaseSampler):
    """Proposes the parameter values that ``propose(study, trial)`` returns: one value for every parameter."""

    def __init__(self, distributions: Distributions, propose: Propose) -> None:
        self._distributions = distributions
        self._propose = propose

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        return self._propose(study, trial)

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        raise ValueError(f"{name} is not a parameter of the space")


class ImputingSampler:
    """Makes proposals with a sampler that needs a value of every parameter in every trial.

    The sampler sees a copy of the study in which each missing parameter is set to the middle of its range. SMAC imputes
    default values in the same way (Hutter et al. 2011).
    """

    def __init__(self, sampler: BaseSampler, distributions: Distributions) -> None:
        self._sampler = sampler
        self._distributions = distributions
        self._center = center_of(distributions)

    def __call__(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        copy = optuna.create_study(directions=study.directions, sampler=self._sampler)
        for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING)):
            if other.number != trial.number:
                copy.add_trial(
                    optuna.trial.create_trial(
                        state=other.state,
                        values=other.values,
                        params=self._center | other.params,
                        distributions=self._distributions,
                        constraints=other.constraints or None,
                    )
                )
        proposal: dict[str, Any] = copy.ask(fixed_distributions=self._distributions).params
        return proposal


class StartupSampler(BaseSampler):
    """Proposes the middle of the space first, then Sobol' points, and then the proposals of the sampler ``model``.

    ``trials`` is the number of trials before the first proposal of ``model``. Trials of previous sweeps count; enqueued
    trials do not count.
    """

    def __init__(self, distributions: Distributions, model: BaseSampler, *, trials: int, seed: int) -> None:
        self._distributions = distributions
        self._model = model
        self._trials = trials
        self._seed = seed

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        if sampled_before(study, trial) < self._trials:
            return self._distributions
        space: Distributions = self._model.infer_relative_search_space(study, trial)
        return space

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        index = sampled_before(study, trial)
        if index < self._trials:
            if index == 0:
                return center_of(self._distributions)
            return sobol_point(self._distributions, index, seed=self._seed)
        params: dict[str, Any] = self._model.sample_relative(study, trial, search_space)
        return params

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        return self._model.sample_independent(study, trial, name, distribution)


def sobol_point(distributions: Distributions, index: int, *, seed: int) -> dict[str, Any]:
    """Return the point with number ``index`` of a scrambled Sobol' sequence (Owen 1998) in the space.

    Unlike Optuna's QMCSampler, the sequence includes categorical and conditional parameters.
    """
    from scipy.stats import qmc

    engine = qmc.Sobol(len(distributions), scramble=True, rng=np.random.default_rng(seed))
    point = engine.random(1 << index.bit_length())[index]  # 2**k points, so the sequence is balanced
    return {
        name: value_at(item, float(share)) for (name, item), share in zip(distributions.items(), point, strict=True)
    }


def sampled_before(study: Study, trial: FrozenTrial) -> int:
    """Return how many of the trials before ``trial`` were not enqueued."""
    previous = study.get_trials(deepcopy=False)[: trial.number]
    return sum("fixed_params" not in other.system_attrs for other in previous)


def center_of(distributions: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return the middle of each parameter's range, by parameter name."""
    return {name: value_at(distribution, 0.5) for name, distribution in distributions.items()}


def value_at(distribution: Any, share: float) -> Any:
    """Return the value at the position ``share`` in [0, 1) of a distribution.

    Position 0 is the lower end of a range (on its log scale, if any), or the first value of a list.
    """
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(share * len(distribution.choices))]
    is_integer = isinstance(distribution, IntDistribution)
    low, high = distribution.low, distribution.high
    if is_integer:  # each integer gets an equal part of the range
        low, high = low - 0.5, high + 0.5
    value = math.exp(math.log(low) + share * math.log(high / low)) if distribution.log else low + share * (high - low)
    value = min(max(value, distribution.low), distribution.high)
    return round(value) if is_integer else value
