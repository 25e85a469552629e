"""Samplers that propose every parameter of a space, for algorithms that do not support conditional parameters.

Optuna uses only the proposed parameters that apply to the trial and discards the others.
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
"""Returns a value of every parameter for a trial."""


class WholeSpaceSampler(BaseSampler):
    """Gives each trial the values that ``propose`` returns."""

    def __init__(self, distributions: Distributions, propose: Propose) -> None:
        self._distributions = distributions
        self._propose = propose

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        """Return the distributions of all parameters of the space."""
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        """Return a value for every parameter."""
        return self._propose(study, trial)

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """Raise, because no parameter is outside the space."""
        raise ValueError(f"{name} is not a parameter of the space")


class ImputingSampler:
    """Asks a sampler for a proposal, based on a copy of the study in which every trial has every parameter.

    A parameter that does not apply to a trial is set to the middle of its range, so the model sees no effect of it.
    Sequential model-based optimisation does the same (Hutter et al. 2011 impute a default).
    """

    def __init__(self, sampler: BaseSampler, distributions: Distributions) -> None:
        self._sampler = sampler
        self._distributions = distributions
        self._center = center_of(distributions)

    def __call__(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return the sampler's proposal, based on the finished and the running trials."""
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
        proposed: dict[str, Any] = copy.ask(fixed_distributions=self._distributions).params
        return proposed


class Sobol:
    """Scrambled Sobol' points in the unit cube (Owen 1998). The n-th trial proposed by a sampler gets the n-th point.

    Used because Optuna's QMCSampler draws categorical parameters at random and skips conditional parameters.
    """

    def __init__(self, distributions: Distributions, *, seed: int) -> None:
        self._distributions = distributions
        self._seed = seed

    def __call__(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return the next point, as parameter values."""
        from scipy.stats import qmc

        index = _sampled_before(study, trial)
        engine = qmc.Sobol(len(self._distributions), scramble=True, rng=np.random.default_rng(self._seed))
        point = engine.random(1 << index.bit_length())[index]  # powers of two keep the sequence balanced
        return {
            name: value_at(item, float(share))
            for (name, item), share in zip(self._distributions.items(), point, strict=True)
        }


class CenterFirst:
    """Proposes the center of the space for the first trial, and the proposals of ``then`` for all other trials.

    A user who specifies a range expects good values inside it, so before the first result its middle is the best guess.
    """

    def __init__(self, distributions: Distributions, then: Propose) -> None:
        self._center = center_of(distributions)
        self._then = then

    def __call__(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return the center for the first trial, otherwise the proposal of ``then``."""
        return self._then(study, trial) if _sampled_before(study, trial) else self._center


class StartupSampler(BaseSampler):
    """Uses ``first`` for the first ``trials`` trials, including those of previous sweeps, and ``then`` afterwards."""

    def __init__(self, first: BaseSampler, then: BaseSampler, *, trials: int) -> None:
        self._first, self._then, self._trials = first, then, trials

    def _current(self, study: Study, trial: FrozenTrial) -> BaseSampler:
        return self._first if _sampled_before(study, trial) < self._trials else self._then

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        """Return the search space of the current sampler."""
        space: Distributions = self._current(study, trial).infer_relative_search_space(study, trial)
        return space

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        """Return the proposal of the current sampler."""
        proposed: dict[str, Any] = self._current(study, trial).sample_relative(study, trial, search_space)
        return proposed

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """Return a value for a parameter that the proposal does not contain."""
        return self._current(study, trial).sample_independent(study, trial, name, distribution)


def _sampled_before(study: Study, trial: FrozenTrial) -> int:
    """Return the number of previous trials that were proposed by a sampler rather than enqueued."""
    previous = study.get_trials(deepcopy=False)[: trial.number]
    return sum("fixed_params" not in other.system_attrs for other in previous)


def center_of(distributions: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return the middle of the range of each parameter."""
    return {name: value_at(item, 0.5) for name, item in distributions.items()}


def value_at(distribution: Any, share: float) -> Any:
    """Return the value at the position ``share`` in [0, 1) of a (possibly logarithmic) range or a list of choices."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(share * len(distribution.choices))]
    low, high = distribution.low, distribution.high
    if is_integer := isinstance(distribution, IntDistribution):
        low, high = low - 0.5, high + 0.5
    value = math.exp(math.log(low) + share * math.log(high / low)) if distribution.log else low + share * (high - low)
    value = min(max(value, distribution.low), distribution.high)
    return round(value) if is_integer else value
